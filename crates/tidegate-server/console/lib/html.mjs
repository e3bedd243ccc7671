// What every component begins with: templates that are checked by nobody but read like HTML.
import { h } from 'preact';
import htm from 'htm';

export const html = htm.bind(h);
export { Fragment } from 'preact';
export { useEffect, useMemo, useRef, useState, useCallback } from 'preact/hooks';
export { signal, computed, batch, effect, useSignal, useComputed, useSignalEffect } from '@preact/signals';
