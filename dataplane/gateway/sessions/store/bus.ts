/** Messages between the replicas of one gateway. `session` is always its id. */
export type BusMessage =
  /** It has been ended, or its notes have changed: what is held of it is out of date. */
  | { readonly kind: 'ended' | 'changed'; readonly session: string }
  /** A JSON-RPC message for the client whose GET stream is open at the replica; `ask`: its id, where it is a request. */
  | { readonly kind: 'say'; readonly session: string; readonly text: string; readonly ask?: string }
  /** A client's response to a request of the replica. */
  | { readonly kind: 'answer'; readonly session: string; readonly ask: string; readonly text: string }
  /** A request of the replica did not reach the client. */
  | { readonly kind: 'unheard'; readonly session: string; readonly ask: string }
  /** The client has cancelled its request, whose id is JSON text. */
  | { readonly kind: 'cancel'; readonly session: string; readonly request: string }
  /** The client has its GET stream open at the replica that sends this, and no longer anywhere else. */
  | { readonly kind: 'listens'; readonly session: string }
  /** The replica `from` has opened a session with a backend for a client whose GET stream is open at the other one. */
  | { readonly kind: 'linked'; readonly session: string; readonly backend: string; readonly from: string }
  /** The messages of that session are subscribed to now, as far as they can be. */
  | { readonly kind: 'hears'; readonly session: string; readonly backend: string }
  | AnswerQuestion
  | RelayMessage

/**
 * A client's question for an answer that another replica has: its retry of a suspended call, as the client sent it, or
 * its stream of events, after the one of this number. What comes of it goes to the replica `from`, as `relay`.
 */
type AnswerQuestion =
  | {
      readonly kind: 'resume'
      readonly call: string
      readonly relay: string
      readonly from: string
      readonly text: string
    }
  | {
      readonly kind: 'replay'
      readonly session: string
      readonly stream: string
      readonly after: number
      readonly relay: string
      readonly from: string
    }

/** About an answer that one replica has and whose client is at another. `relay` names this. */
type RelayMessage =
  /** What comes next of the answer, by number from 1; number 0 needs no acknowledgement. */
  | { readonly kind: 'relayed'; readonly relay: string; readonly seq: number; readonly items: readonly Relayed[] }
  /** The client still waits: it has all up to this number, and can take more or not. */
  | {
      readonly kind: 'awaits'
      readonly relay: string
      readonly from: string
      readonly received: number
      readonly hasRoom: boolean
    }
  /** It has gone. */
  | { readonly kind: 'left'; readonly relay: string }

/** A piece of an answer. `text`: bytes as Latin-1. */
export type Relayed =
  /** All of it, with its HTTP status. */
  | { readonly what: 'answer'; readonly status: number; readonly text: string }
  /** One event, or a part of one that is too large to be held; `id`: its id in the stream, where it has one. */
  | { readonly what: 'event' | 'part'; readonly id?: string | undefined; readonly text: string }
  /** It is whole; what comes next is lost; there is something to come; there is no such answer. */
  | { readonly what: 'end' | 'lost' | 'heartbeat' | 'unknown' }

export type BusKind = BusMessage['kind']

/** How replicas reach each other. Messages may be lost while the way between is: nothing rests on one alone. */
export interface SessionBus {
  /** This replica's name; no other has ever had it. */
  readonly replica: string
  /**
   * Sends to one replica or, without a name, to all others. False where it certainly reached nobody; it never rejects.
   */
  send(message: BusMessage, to?: string): Promise<boolean>
  /** The same where it is of no consequence whether it reaches anybody. */
  notify(message: BusMessage, to?: string): void
  on<K extends BusKind>(kind: K, take: (message: Extract<BusMessage, { kind: K }>) => void): void
  close(): void
}
