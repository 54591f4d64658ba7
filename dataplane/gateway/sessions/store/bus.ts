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
  | SuspendedCallMessage
  | StreamMessage

/** About a stream of events that one replica keeps and whose client resumes it at another. `follow` names this. */
type StreamMessage =
  /** The client resumes the stream at the replica `to`, after this event. */
  | {
      readonly kind: 'replay'
      readonly session: string
      readonly stream: string
      readonly after: number
      readonly follow: string
      readonly to: string
    }
  /** It has gone again. */
  | { readonly kind: 'unfollow'; readonly follow: string }
  | ({ readonly kind: 'stream'; readonly follow: string } & Streamed)

/** What comes of a stream. `text`: bytes as Latin-1. */
export type Streamed =
  | { readonly what: 'event'; readonly id: string | undefined; readonly text: string }
  /** A heartbeat; the stream is whole; there is none of this name, or what comes next in it is lost. */
  | { readonly what: 'sign' | 'end' | 'lost' }

/**
 * About a suspended call at one replica whose client has retried at another. `retry` names the retry.
 */
type SuspendedCallMessage =
  /** `text` is the retry as the client sent it, `from` the replica that has it. */
  | {
      readonly kind: 'resume'
      readonly call: string
      readonly retry: string
      readonly from: string
      readonly text: string
    }
  /** The client still waits; `more`: it has taken the part before. Or it has gone. */
  | { readonly kind: 'attends'; readonly retry: string; readonly from: string; readonly more: boolean }
  | { readonly kind: 'left'; readonly retry: string }
  | ({ readonly kind: 'resumed'; readonly retry: string } & Resumed)

/** What the client of a retry is to get. `text`: bytes as Latin-1. */
export type Resumed =
  /** An answer with its HTTP status. */
  | { readonly what: 'answer'; readonly status: number; readonly text: string }
  /** A message before the answer; a part of an answer that is too large to be held. */
  | { readonly what: 'message' | 'part'; readonly text: string }
  /** The last part was given; the answer broke off; a heartbeat; there is no such call. */
  | { readonly what: 'end' | 'cut' | 'sign' | 'unknown' }

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
