import { PublicError } from '../../server/errors.ts'
import type { Holder } from '../../storage/fair-cache.ts'

/** The kinds of records, each with the memory pool that it counts in. */
export const kinds = {
  /** Clients that have registered and have no tokens yet. */
  newClient: 'newClients',
  /** Registered clients that have tokens. */
  client: 'clients',
  /** Registrations of the gateway as a client of upstream providers, sealed. */
  upstreamClient: 'clients',
  /** Registrations of the gateway that are in progress. */
  registering: 'pages',
  /** Authorization requests whose user is logging in. */
  interaction: 'pending',
  /** Authorization requests whose client has the user's consent. */
  allowed: 'pending',
  /** Links to an on-demand provider: one for each login and provider. */
  link: 'pages',
  /** Logins in progress at such a provider. */
  linking: 'pages',
  /** Logins in progress at an upstream provider. */
  login: 'pending',
  /** Sessions of the account page. */
  account: 'pages',
  /** The grants of users to clients, one for each login. */
  grant: 'grants',
  /** Tokens of key forms that were sent. Each is valid once. */
  keyForm: 'pages',
  /** The set of grants of each user. */
  user: 'grants',
  /** For each user, the second up to which all grants have ended. */
  endedUser: 'grants',
  /** The consents of users to clients, by browser. */
  consent: 'grants',
  code: 'grants',
  usedCode: 'grants',
  /** The refresh tokens of a grant: one record, whatever their number. */
  refresh: 'grants',
  /** Exchanges of a refresh token in progress. */
  rotating: 'grants',
  /** The answers to exchanges of refresh tokens, sealed. */
  rotated: 'grants',
  /** Used assertions. Their own pool keeps them from evicting grants. */
  assertion: 'marks',
  /** Used assertions that authenticated clients. Their own pool keeps them from evicting grants and other records. */
  clientAssertion: 'clientMarks',
  /**
   * The keys with which clients last authenticated. Their own pool keeps strangers' keys from evicting anything else.
   */
  clientKeys: 'clientKeys',
  /** Used proofs of possession (DPoP). Their own pool keeps them from evicting grants and other records. */
  proof: 'proofMarks',
  /** Grants that ended before their access tokens expired. */
  revoked: 'grants',
} as const

export type Kind = keyof typeof kinds
export type Pool = (typeof kinds)[Kind]

/**
 * The holder of a record, the grant whose holder it has, or the network of an unknown user. In memory, records of the
 * holder with the most bytes are evicted first.
 */
export type HeldBy = Holder | { readonly grant: string } | { readonly network: Holder }

/** The lifetime of a record in seconds, and its holder; absent: the earlier holder, or none. */
export type Term = number | { readonly ttlS: number; readonly by?: HeldBy | undefined }

export const readSeconds = (term: Term): number => (typeof term === 'number' ? term : term.ttlS)
export const readHolder = (term: Term): HeldBy | undefined => (typeof term === 'number' ? undefined : term.by)

/** The most registered clients. Beyond this number the oldest ones without tokens are evicted. */
export const MOST_CLIENTS = 100_000
/** The minimum age for eviction: a client that has just registered is about to be used. */
export const YOUNGEST_EVICTED_MS = 60 * 60_000

/** The most members of a set that are listed: the last to expire. */
export const MOST_MEMBERS = 200

export interface Member {
  readonly member: string
  /** The time when it leaves the set, in milliseconds since 1970. */
  readonly endsAt: number
}

/**
 * Stores texts and sets of texts with a lifetime. Every operation is atomic, and every step that must happen once is
 * one operation. Names consist of `A-Z a-z 0-9 _ -` and have a limited length; callers hash names that come from
 * outside. If the store is down, every operation rejects with a PublicError `unavailable`.
 */
export interface RecordStore {
  get(kind: Kind, name: string): Promise<string | undefined>
  /** Stores a text for its term and replaces an earlier one. Rejects with `unavailable` if there is no room. */
  set(kind: Kind, name: string, text: string, term: Term): Promise<void>
  /** Stores a text unless there is one already. Returns false if there is. */
  add(kind: Kind, name: string, text: string, term: Term): Promise<boolean>
  /** Returns a text and deletes it. Only one of several callers gets it. */
  take(kind: Kind, name: string): Promise<string | undefined>
  delete(kind: Kind, name: string): Promise<void>
  /** Extends the lifetime of a record to its term from now. The holder stays the same. */
  extend(kind: Kind, name: string, term: Term): Promise<void>
  /**
   * Stores a client that has just registered. Beyond the limit it evicts the oldest new client of the network that has
   * the most. Rejects with `unavailable` if that client registered a moment ago and its network has no more than this
   * one.
   */
  addClient(name: string, text: string, ttlS: number, by?: HeldBy): Promise<void>
  /**
   * Extends the lifetime of a used client to `ttlS` seconds from now. From its first use on, new clients can't evict
   * it.
   */
  useClient(name: string, ttlS: number, by?: HeldBy): Promise<void>
  /**
   * Adds a member to a set for a term from now, or changes its term. Returns the members that were evicted to make room
   * and whose records still exist.
   */
  addMember(kind: Kind, name: string, member: string, term: Term): Promise<readonly string[]>
  /** Returns the members of a set, the last to expire first, at most `MOST_MEMBERS`. */
  members(kind: Kind, name: string): Promise<readonly Member[]>
  removeMember(kind: Kind, name: string, member: string): Promise<void>
  /** Adds a grant to the ended ones for `ttlS` seconds. */
  revoke(grant: string, ttlS: number, by?: HeldBy): Promise<void>
  /** Returns the grants that ended since `sinceMs` (ms since 1970) and are still recorded. */
  revokedSince(sinceMs: number): Promise<readonly string[]>
  /**
   * Resolves once earlier writes survive the loss of the storage server that has them, as far as the storage can tell.
   * Callers wait for it before they send an answer that depends on those writes.
   */
  settled(): Promise<void>
  close(): void
}

/**
 * Returns the first record under one of several names, parsed as JSON. A name that a secret derives is looked up by the
 * digests of all secrets, the active one first (`KeyedHash.all`). `ask` gets or takes the record.
 */
export async function firstRecord<T>(
  names: readonly string[],
  ask: (name: string) => Promise<string | undefined>,
): Promise<T | undefined> {
  for (const name of names) {
    const text = await ask(name)
    if (text !== undefined) return JSON.parse(text) as T
  }
  return undefined
}

/** Builds the error for a store without room: the same request succeeds once records have expired. */
export const full = (why: string) =>
  new PublicError('unavailable', { headers: { 'Retry-After': '60' }, cause: new Error(why) })
