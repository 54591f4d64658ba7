import type { BackendFailure } from '../connection/failure.ts'
import type { Exchange } from './exchange.ts'
import type { Wishes } from './wishes.ts'

/** One of those who talk through a conversation. */
export interface Party extends Wishes {
  readonly id: string
  /** What it said of itself when it was opened: what it may be asked. */
  readonly capabilities: Readonly<Record<string, unknown>>
  /** Its GET stream, where it has one open. */
  listening: Exchange | undefined
}

/** A request that the server has not answered yet. */
export interface Pending {
  /** Undefined for the gateway's own requests. */
  readonly party: Party | undefined
  readonly exchange: Exchange | undefined
  /** The id and progress token that the asker chose, as JSON text. */
  readonly id: string
  readonly token: string | undefined
  /** Whether a client waits for it, who learns in its own way what it would have had to declare to be asked. */
  readonly isCall: boolean
  answered(text: string): void
  failed(failure: BackendFailure): void
}

/** Who talks through a conversation now, and what they wait for, by the id that it has on the channel. */
export interface Present {
  readonly parties: ReadonlySet<Party>
  readonly pending: ReadonlyMap<number, Pending>
}

/** Whom something unasked concerns: the only one who waits for an answer, or who is the only one there is. */
export function concerned({
  parties,
  pending,
}: Present): Partial<Pick<Pending, 'party' | 'exchange' | 'isCall'>> | undefined {
  const [first, second] = pending.values()
  if (first !== undefined && second === undefined) return first
  const [party, other] = parties
  if (party === undefined || other !== undefined) return undefined
  return { party, exchange: party.listening ?? first?.exchange, isCall: false }
}
