import { isObject } from '../../../../crds/shared/json.ts'
import type { BusKind, BusMessage, Relayed } from './bus.ts'

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
  resume: ['call', 'relay', 'from', 'text'],
  replay: ['session', 'stream', 'relay', 'from'],
  relayed: ['relay'],
  awaits: ['relay', 'from'],
  left: ['relay'],
}
const isText = (value: unknown): boolean => typeof value === 'string'
const isNumber = (value: unknown): boolean => Number.isSafeInteger(value)
/** Members that it must have, which are something else. */
const NEEDED: Readonly<Partial<Record<BusKind, Shape>>> = {
  replay: { after: isNumber },
  relayed: { seq: isNumber, items: (value) => Array.isArray(value) && value.every(isRelayed) },
  awaits: { received: isNumber, hasRoom: (value) => typeof value === 'boolean' },
}
/** Those that it may have. */
const OTHERS: Shape = { ask: isText }

type Shape = Readonly<Record<string, (value: unknown) => boolean>>

/** Members that a piece of an answer must have. */
const PIECES: Readonly<Record<Relayed['what'], Shape>> = {
  answer: {
    status: (value) => Number.isSafeInteger(value) && (value as number) >= 200 && (value as number) <= 599,
    text: isText,
  },
  event: { text: isText },
  part: { text: isText },
  end: {},
  lost: {},
  heartbeat: {},
  unknown: {},
}
/** Those that it may have. */
const PIECE_OTHERS: Shape = { id: isText }

function isRelayed(piece: unknown): boolean {
  if (!isObject(piece)) return false
  const { what } = piece as { readonly what?: unknown }
  if (typeof what !== 'string' || !Object.hasOwn(PIECES, what)) return false
  return has(piece, PIECES[what as Relayed['what']]) && mayHave(piece, PIECE_OTHERS)
}

type Members = Readonly<Record<string, unknown>>

const has = (members: Members, shape: Shape): boolean =>
  Object.entries(shape).every(([name, isFit]) => isFit(members[name]))

const mayHave = (members: Members, shape: Shape): boolean =>
  Object.entries(shape).every(([name, isFit]) => members[name] === undefined || isFit(members[name]))

/** Whether a message is one that replicas of this version send: those of other versions, and other programs, may send anything. */
export function isBusMessage(message: Members): boolean {
  const { kind } = message as Partial<BusMessage>
  if (typeof kind !== 'string' || !Object.hasOwn(TEXTS, kind)) return false
  if (!TEXTS[kind].every((name) => isText(message[name]))) return false
  return has(message, NEEDED[kind] ?? {}) && mayHave(message, OTHERS)
}
