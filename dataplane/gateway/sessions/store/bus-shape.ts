import type { BusKind, BusMessage } from './bus.ts'

/** Members that a message must have, which are texts. */
const TEXTS: Readonly<Record<BusKind, readonly string[]>> = {
  ended: ['session'],
  changed: ['session'],
  say: ['session', 'text'],
  answer: ['session', 'ask', 'text'],
  unheard: ['session', 'ask'],
  cancel: ['session', 'request'],
  listens: ['session'],
  linked: ['session', 'backend', 'from'],
  hears: ['session', 'backend'],
  resume: ['call', 'retry', 'from', 'text'],
  attends: ['retry', 'from'],
  left: ['retry'],
  resumed: ['retry', 'what'],
  replay: ['session', 'stream', 'follow', 'to'],
  unfollow: ['follow'],
  stream: ['follow', 'what'],
}
/** Those that it may have, or that go with some others. */
const OTHERS: Readonly<Record<string, (value: unknown) => boolean>> = {
  ask: (value) => typeof value === 'string',
  text: (value) => typeof value === 'string',
  id: (value) => typeof value === 'string',
  more: (value) => typeof value === 'boolean',
  after: (value) => Number.isSafeInteger(value),
  status: (value) => Number.isSafeInteger(value) && (value as number) >= 200 && (value as number) <= 599,
}
/** What is said of an answer or a stream, with the members that go with it. */
const WHATS: Readonly<Record<'resumed' | 'stream', Readonly<Record<string, readonly string[]>>>> = {
  resumed: { answer: ['status', 'text'], message: ['text'], part: ['text'], end: [], cut: [], sign: [], unknown: [] },
  stream: { event: ['text'], sign: [], end: [], lost: [] },
}

/** Whether a message is one that replicas of this version send: those of other versions, and other programs, may send anything. */
export function isBusMessage(message: Readonly<Record<string, unknown>>): boolean {
  const { kind, what } = message as Partial<BusMessage> & { readonly what?: unknown }
  if (typeof kind !== 'string' || !Object.hasOwn(TEXTS, kind)) return false
  if (!TEXTS[kind].every((name) => typeof message[name] === 'string')) return false
  if (!Object.entries(OTHERS).every(([name, isFit]) => message[name] === undefined || isFit(message[name])))
    return false
  if (kind === 'replay') return message['after'] !== undefined
  if (kind === 'attends') return message['more'] !== undefined
  if (kind !== 'resumed' && kind !== 'stream') return true
  const needed = Object.hasOwn(WHATS[kind], what as string) ? WHATS[kind][what as string] : undefined
  return needed?.every((name) => message[name] !== undefined) ?? false
}
