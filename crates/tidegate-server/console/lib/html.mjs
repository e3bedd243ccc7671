// Imports of every component: HTML templates (not type-checked), hooks and signals.
import { h } from 'preact';
import htm from 'htm';

export const html = htm.bind(h);
export { Fragment } from 'preact';
export { useEffect, useMemo, useRef, useState, useCallback } from 'preact/hooks';
export { signal, computed, batch, effect, useSignal, useComputed, useSignalEffect } from '@preact/signals';
