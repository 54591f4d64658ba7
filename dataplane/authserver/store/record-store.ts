import type { Holder } from '../../storage/fair-cache.ts'

/** What is kept, by kind; a kind decides in which part of the memory it counts. */
export const kinds = {
  /** Clients that have registered themselves, and nobody has got tokens for yet. */
  newClient: 'newClients',
  /** Those that somebody has got tokens for. */
  client: 'clients',
  /** Clients that upstream providers have registered for us, sealed. */
  upstreamClient: 'clients',
  /** Such a client is being registered at this moment. */
  registering: 'pages',
  /** Authorization requests whose user is logging in. */
  interaction: 'pending',
  /** Authorization requests whose client may be logged in for. */
  allowed: 'pending',
  /** Links to a provider that is asked for on demand: one for each login and provider. */
  link: 'pages',
  /** Logins at such a provider that are under way. */
  linking: 'pages',
  /** Logins that are under way at an upstream provider. */
  login: 'pending',
  /** People who look at what is linked to them. */
  account: 'pages',
  /** What users have granted to clients, one for each login. */
  grant: 'grants',
  /** Of each user a set: the grants. */
  user: 'grants',
  /** What users have allowed clients, by browser. */
  consent: 'grants',
  code: 'grants',
  usedCode: 'grants',
  /** The refresh tokens of a grant: one record, whatever their number. */
  refresh: 'grants',
  /** A refresh token is being exchanged at this moment. */
  rotating: 'grants',
  /** What the exchange of a refresh token was answered, sealed. */
  rotated: 'grants',
  /** Assertions that have been used: whoever may bring many pushes out no grant. */
  assertion: 'marks',
  /** Assertions by which clients have authenticated: many of them push out no grant, and no mark of another kind. */
  clientAssertion: 'clientMarks',
  /** Grants that have ended before their access tokens. */
  revoked: 'grants',
} as const

export type Kind = keyof typeof kinds
export type Pool = (typeof kinds)[Kind]

/**
 * Who makes the store keep something: somebody, or whoever the grant of this name is of. In memory, whoever holds most
 * makes room for others.
 */
export type HeldBy = Holder | { readonly grant: string }

/** How long something is kept, in seconds, and who makes the store keep it; absent: whoever did before, or nobody known. */
export type Term = number | { readonly ttlS: number; readonly by?: HeldBy | undefined }

export const secondsOf = (term: Term): number => (typeof term === 'number' ? term : term.ttlS)
export const holderIn = (term: Term): HeldBy | undefined => (typeof term === 'number' ? undefined : term.by)

/** Whoever registers clients costs us so many at most; beyond it the oldest go that nobody has got tokens for. */
export const MOST_CLIENTS = 100_000
/** One that has just registered is about to be used: it makes no room for others. */
export const YOUNGEST_EVICTED_MS = 60 * 60_000

/** Of a set; beyond it those leave that would end first. */
export const MOST_MEMBERS = 200

/** What is in a set. */
export interface Member {
  readonly member: string
  /** When it leaves the set, in milliseconds since 1970. */
  readonly endsAt: number
}

/**
 * Keeps texts for a time, and sets of them. Everything that must happen once happens by one of these operations, each of which is atomic.
 * Names are of `A-Z a-z 0-9 _ -` and of bounded length; whoever has a name from outside hashes it. Where the store is
 * away everything rejects with a PublicError `unavailable`.
 */
export interface RecordStore {
  get(kind: Kind, name: string): Promise<string | undefined>
  /** Keeps it for its term, in place of what was there. Rejects with `unavailable` where there is no room. */
  set(kind: Kind, name: string, text: string, term: Term): Promise<void>
  /** The same where there is nothing yet; false where there is. */
  add(kind: Kind, name: string, text: string, term: Term): Promise<boolean>
  /** Gives it and removes it: of several callers one gets it. */
  take(kind: Kind, name: string): Promise<string | undefined>
  delete(kind: Kind, name: string): Promise<void>
  /** Keeps what is there for `ttlS` seconds from now. */
  extend(kind: Kind, name: string, ttlS: number): Promise<void>
  /**
   * Keeps a client that has just registered. Where there are too many of these the oldest goes of the network that has
   * most; rejects with `unavailable` where that one has just come, and the network has no more than this one.
   */
  addClient(name: string, text: string, ttlS: number, by?: HeldBy): Promise<void>
  /** Keeps a client that is used for `ttlS` seconds from now; from its first use on new ones don't push it out. */
  useClient(name: string, ttlS: number, by?: HeldBy): Promise<void>
  /** Puts a member into a set for a term from now; one that is there already stays for so long. */
  addMember(kind: Kind, name: string, member: string, term: Term): Promise<void>
  /** The members of a set, first those that stay longest. */
  members(kind: Kind, name: string): Promise<readonly Member[]>
  removeMember(kind: Kind, name: string, member: string): Promise<void>
  /** Adds a grant to those that have ended, for `ttlS` seconds. */
  revoke(grant: string, ttlS: number, by?: HeldBy): Promise<void>
  /** Grants that have ended since `sinceMs` (ms since 1970), and are remembered still. */
  revokedSince(sinceMs: number): Promise<readonly string[]>
  /**
   * Settles once what was written here survives the end of the server that has it, as far as the storage can say. Before
   * an answer that somebody relies on goes out.
   */
  settled(): Promise<void>
  close(): void
}

/**
 * The first record there is under one of several names, as JSON has it: what a secret has named is looked for by the
 * digests of all secrets, the one in force first (`KeyedHash.all`). `ask` gets or takes it.
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
