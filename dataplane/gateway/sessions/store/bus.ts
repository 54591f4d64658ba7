/** Messages between the replicas of one gateway. `session` is always a session id. */
export type BusMessage =
  /** The session has ended, or its notes have changed, so cached copies are out of date. */
  | { readonly kind: 'ended' | 'changed'; readonly session: string }
  /**
   * A JSON-RPC message for the client whose GET stream is open at the receiving replica; `ask`: its id, if it is a
   * request.
   */
  | { readonly kind: 'say'; readonly session: string; readonly text: string; readonly ask?: string }
  /** A client's response to a request of the receiving replica. */
  | { readonly kind: 'answer'; readonly session: string; readonly ask: string; readonly text: string }
  /** A request of the receiving replica did not reach the client. */
  | { readonly kind: 'unheard'; readonly session: string; readonly ask: string }
  /** The client has cancelled its request, whose id is JSON text. */
  | { readonly kind: 'cancel'; readonly session: string; readonly request: string }
  /** The client has its GET stream open at the sending replica, and no longer elsewhere. */
  | { readonly kind: 'listens'; readonly session: string }
  /** The replica `from` has opened a backend session for a client whose GET stream is open at the receiving replica. */
  | { readonly kind: 'linked'; readonly session: string; readonly backend: string; readonly from: string }
  /** The messages of that session are now subscribed to, as far as possible. */
  | { readonly kind: 'hears'; readonly session: string; readonly backend: string }
  | AnswerQuestion
  | RelayMessage

/**
 * A question for an answer that another replica has or awaits: a client's retry of a suspended call, its stream after the
 * event of this number, or the answer to a request (its id is JSON text) that comes on a backend's stream. The answer
 * goes to the replica `from`, as `relay`.
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
      readonly kind: 'late'
      readonly session: string
      readonly backend: string
      readonly request: string
      readonly relay: string
      readonly from: string
    }
  | {
      readonly kind: 'replay'
      readonly session: string
      readonly stream: string
      readonly after: number
      readonly relay: string
      readonly from: string
    }

/** A message about an answer that one replica has and whose client is connected to another. `relay` names the relay. */
type RelayMessage =
  /** The next pieces of the answer, numbered from 1; number 0 needs no acknowledgement. */
  | { readonly kind: 'relayed'; readonly relay: string; readonly seq: number; readonly items: readonly Relayed[] }
  /** The client still waits. It has all messages up to this number, and can or can't receive more. */
  | {
      readonly kind: 'awaits'
      readonly relay: string
      readonly from: string
      readonly received: number
      readonly hasRoom: boolean
    }
  /** The client has disconnected. */
  | { readonly kind: 'left'; readonly relay: string }

/** A piece of an answer. `text`: bytes as Latin-1. */
export type Relayed =
  /** The whole answer, with its HTTP status. */
  | { readonly what: 'answer'; readonly status: number; readonly text: string }
  /** One event, or a part of an event that is too large to buffer; `id`: its id in the stream, if any. */
  | { readonly what: 'event' | 'part'; readonly id?: string | undefined; readonly text: string }
  /** In this order: the answer is complete; the rest is lost; more will follow; there is no such answer. */
  | { readonly what: 'end' | 'lost' | 'heartbeat' | 'unknown' }

export type BusKind = BusMessage['kind']

/**
 * The connection between replicas. Messages may be lost while it is interrupted, so nothing depends on a single one.
 */
export interface SessionBus {
  /** This replica's name, which no other replica has ever had. */
  readonly replica: string
  /**
   * Sends to one replica or, without a name, to all others. Resolves to false if certainly nobody received it; never
   * rejects.
   */
  send(message: BusMessage, to?: string): Promise<boolean>
  /** Sends a message that may be lost. */
  notify(message: BusMessage, to?: string): void
  on<K extends BusKind>(kind: K, take: (message: Extract<BusMessage, { kind: K }>) => void): void
  close(): void
}
