// Waiting: sleeps, events, called functions, signals.
import { NonRetriableError, define, on, referenceFunction } from './context.mjs';

define('sleeps', {}, on('sleeps'), async ({ step, work }) => {
  await step.sleep('text', '1s');
  await work('between', () => 1);
  await step.sleep('number', 1000);
  const until = await work('until', () => new Date(Date.now() + 1500).toISOString());
  await step.sleepUntil('date', new Date(until));
  return { until };
});

define('nap', {}, on('nap'), async ({ event, step }) => {
  await step.sleep('nap', event.data.time);
  return 'rested';
});

define('waits', {}, on('waits'), async ({ event, step }) => {
  const answer = await step.waitForEvent('answer', { event: 't/answer', match: 'data.id', timeout: event.data.timeout });
  return { answer };
});

define('caller', { retries: 0 }, on('caller'), async ({ event, step, work }) => {
  try {
    const value = await step.invoke('call', {
      function: referenceFunction({ functionId: event.data.target }),
      data: event.data.data ?? {},
      ...(event.data.timeout && { timeout: event.data.timeout }),
    });
    await work('after', () => 1);
    return { value };
  } catch (error) {
    return { error: { name: error.name, message: error.message } };
  }
});
define('callee', {}, on('callee'), ({ event, work }) => work('double', () => ({ doubled: event.data.n * 2 })));
define('callee-fails', { retries: 0 }, on('callee-fails'), () => {
  throw new NonRetriableError('callee is broken');
});
define('callee-sleeps', {}, on('callee-sleeps'), async ({ step }) => step.sleep('long', '1h'));
define('callee-limited', { rateLimit: { limit: 1, period: '1h', key: 'event.data.key' } }, on('callee-limited'), () => 'limited');
define('callee-single', { singleton: { key: 'event.data.key', mode: 'skip' } }, on('callee-single'), async ({ step }) => step.sleep('long', '1h'));

define('signal', {}, on('signal'), async ({ event, step }) => {
  const answer = await step.waitForSignal('wait', { signal: event.data.signal, timeout: event.data.timeout, onConflict: 'fail' });
  return { answer };
});
define('signaller', { retries: 0 }, on('signaller'), async ({ event, step }) => {
  const sent = await step.sendSignal('send', { signal: event.data.signal, data: { hello: 'there' } });
  return { sent: sent ?? null };
});
