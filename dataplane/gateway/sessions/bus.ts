/** What replicas of one gateway tell each other of sessions. `session` is always its id. */
export type BusMessage =
  /** It has been ended, or its notes have changed: what is held of it is out of date. */
  | { readonly kind: 'ended' | 'changed'; readonly session: string }
  /** A JSON-RPC message for the client that listens at the replica; `ask` names a question that waits for an answer. */
  | { readonly kind: 'say'; readonly session: string; readonly text: string; readonly ask?: string }
  /** What the client has answered to a question of the replica. */
  | { readonly kind: 'answer'; readonly session: string; readonly ask: string; readonly text: string }
  /** A question of the replica reached nobody. */
  | { readonly kind: 'unheard'; readonly session: string; readonly ask: string }
  /** The client has cancelled its request, whose id is JSON text. */
  | { readonly kind: 'cancel'; readonly session: string; readonly request: string }

export type BusKind = BusMessage['kind']

/** How replicas reach each other. Messages may be lost while the way between is: nothing rests on one alone. */
export interface SessionBus {
  /** This replica's name; no other has ever had it. */
  readonly replica: string
  /** Sends to one replica or, without a name, to all others. False where it certainly reached nobody. */
  send(message: BusMessage, to?: string): Promise<boolean>
  on<K extends BusKind>(kind: K, take: (message: Extract<BusMessage, { kind: K }>) => void): void
  close(): void
}
