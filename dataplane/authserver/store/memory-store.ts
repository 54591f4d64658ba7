import { FairCache, type Holder, NOBODY, purgeRegularly } from '../../storage/fair-cache.ts'
import {
  full,
  type HeldBy,
  type Kind,
  kinds,
  type Member,
  MOST_CLIENTS,
  MOST_MEMBERS,
  type Pool,
  type RecordStore,
  readHolder,
  readSeconds,
  type Term,
  YOUNGEST_EVICTED_MS,
} from './record-store.ts'

/** The size of an entry without its texts, and of a holder: 230 and 220 bytes measured. */
const ENTRY_BYTES = 230
const HOLDER_BYTES = 220

interface MemoryStoreOptions {
  /** The memory limits by pool. The holder with the most bytes is evicted first; marks are never evicted. */
  readonly mostBytes?: Partial<Readonly<Record<Pool, number>>>
  readonly mostClients?: number
  /** Returns milliseconds since 1970. */
  readonly now?: () => number
  /** The interval at which expired records are deleted. */
  readonly purgeMs?: number
}

/** Users with at most this many bytes of logins count as equal. The one who was away for longest is evicted first. */
const EVEN_BYTES: Partial<Record<Pool, number>> = { grants: 8 * 1024 }
const MOST_ENDED = 100_000
const EVEN_ENDED = 16

function openPools({ mostBytes, now, purgeMs }: MemoryStoreOptions & { now: () => number }) {
  const pools = Object.fromEntries(
    Object.entries({ ...memoryParts().records, ...mostBytes }).map(([pool, most]) => [
      pool,
      new FairCache<string>({ most, holderSize: HOLDER_BYTES, even: EVEN_BYTES[pool as Pool], now }),
    ]),
  ) as Record<Pool, FairCache<string>>
  const ended = new FairCache<number>({ most: MOST_ENDED, even: EVEN_ENDED, now })
  const all = [...Object.values(pools), ended]
  for (const cache of all) purgeRegularly(cache, purgeMs)
  return { pools, ended, all }
}

/**
 * The pools whose records are never evicted. For each part of a holder's path, the widest first, it says how much of
 * the free space that part may hold. An issuer gets a larger part than one of its subjects, because often there is only
 * one issuer.
 */
const OF_FREE: Partial<Readonly<Record<Pool, readonly number[]>>> = {
  marks: [3, 1 / 2],
  clientMarks: [1 / 2],
  proofMarks: [1 / 2],
}

/** Creates a store in the memory of this process: limited in size, and lost at a restart. */
export function createMemoryStore(options: MemoryStoreOptions = {}): RecordStore & { readonly size: number } {
  const { mostClients = MOST_CLIENTS, now = Date.now } = options
  const { pools, ended, all } = openPools({ ...options, now })
  const findPool = (kind: Kind) => pools[kinds[kind]]
  const formatKey = (kind: Kind, name: string) => `${kind}:${name}`

  /** Returns undefined if the holder is unknown, or their grant has ended. */
  function findHolder(by: HeldBy | undefined): Holder | undefined {
    if (by === undefined) return undefined
    if ('grant' in by) return pools.grants.holderOf(formatKey('grant', by.grant))
    return 'network' in by ? by.network : by
  }

  function set(kind: Kind, name: string, text: string, term: Term): void {
    const key = formatKey(kind, name)
    const pool = findPool(kind)
    const size = measureText(key) + measureText(text) + ENTRY_BYTES
    const holder = findHolder(readHolder(term)) ?? pool.holderOf(key) ?? NOBODY
    const isNew = pool.holderOf(key) === undefined
    const ofFree = OF_FREE[kinds[kind]]
    if (isNew && ofFree !== undefined) checkMark(pool, { holder, bytes: size }, ofFree)
    if (isNew && kind === 'newClient') makeRoom(pools, { holder, bytes: size }, { mostClients, now })
    if (isNew && kinds[kind] === 'clients') makeUsedRoom(pools, { holder, bytes: size }, { mostClients })
    pool.set(key, text, { size, ttlMs: readSeconds(term) * 1000, holder })
  }

  const get = (kind: Kind, name: string) => findPool(kind).get(formatKey(kind, name))
  const remove = (kind: Kind, name: string) => void findPool(kind).delete(formatKey(kind, name))

  return {
    /** The number of records of all kinds. */
    get size() {
      return all.reduce((sum, cache) => sum + cache.size, 0)
    },
    get: async (kind, name) => get(kind, name),
    set: async (kind, name, text, term) => set(kind, name, text, term),
    async add(kind, name, text, term) {
      if (get(kind, name) !== undefined) return false
      set(kind, name, text, term)
      return true
    },
    async take(kind, name) {
      const text = get(kind, name)
      remove(kind, name)
      return text
    },
    delete: async (kind, name) => remove(kind, name),
    async extend(kind, name, term) {
      const text = get(kind, name)
      if (text !== undefined) set(kind, name, text, term)
    },
    addClient: async (name, text, ttlS, by) => set('newClient', name, text, { ttlS, by }),
    async useClient(name, ttlS, by) {
      const used = get('client', name)
      const text = used ?? get('newClient', name)
      // The new client is removed first, so that the used one fits into its space.
      remove('newClient', name)
      // The client belongs to the first user who used it.
      if (text !== undefined) set('client', name, text, { ttlS, by: used === undefined ? by : undefined })
    },
    ...memorySets({ get, set, delete: remove, now }),
    async revoke(grant, ttlS, by) {
      ended.set(grant, now(), { size: 1, ttlMs: ttlS * 1000, holder: findHolder(by) })
    },
    async revokedSince(sinceMs) {
      return [...ended.entries()].filter(([, at]) => at >= sinceMs).map(([grant]) => grant)
    },
    settled: async () => undefined,
    close() {
      for (const cache of all) cache.clear()
    },
  }
}

/**
 * Rejects a record of use if there is no room for it: without the record an assertion could be used again. A known
 * holder, and each group above it, may use a part of the free space only, so that some is left for all others.
 */
function checkMark(marks: FairCache<string>, { holder, bytes }: Needed, ofFree: readonly number[]): void {
  const isShared = () =>
    ofFree.every((part, index) => marks.heldBy(holder.slice(0, index + 1)) + bytes <= (marks.most - marks.held) * part)
  const hasRoom = () => marks.held + marks.needed(holder, bytes) <= marks.most && (holder === NOBODY || isShared())
  if (hasRoom()) return
  marks.purgeLately()
  if (!hasRoom()) throw full('the store of marks of used assertions is full')
}

/** Returns the bytes of a text in memory: one for each character, or two for all of them if one needs two. */
const measureText = (text: string): number => (/[^\0-\xff]/.test(text) ? 2 * text.length : text.length)

/** The clients that have tokens, and the others. */
type ClientPools = Pick<ReturnType<typeof openPools>['pools'], 'clients' | 'newClients'>

interface Needed {
  readonly holder: Holder
  readonly bytes: number
}

type ClientBounds = Required<Pick<MemoryStoreOptions, 'mostClients' | 'now'>>

/** The share of the clients' memory for clients with tokens. New clients always keep the rest. */
const USED = 3 / 4

/**
 * Makes room for one more new client. It evicts the oldest new client of the network that holds the most. A network
 * that registers without end therefore evicts its own clients, and never one with tokens. Throws a PublicError
 * `unavailable` if that client registered a moment ago and its network holds no more than this one.
 */
function makeRoom(
  { clients, newClients }: ClientPools,
  { holder, bytes }: Needed,
  { mostClients, now }: ClientBounds,
): void {
  const isRoomy = () =>
    clients.size + newClients.size < mostClients &&
    clients.held + newClients.held + newClients.needed(holder, bytes) <= clients.most
  if (isRoomy()) return
  for (const cache of [clients, newClients]) cache.purgeLately()
  while (!isRoomy()) {
    const leaver = newClients.leaver(holder, bytes)
    if (leaver === undefined || (!leaver.isHeldByMore && now() - leaver.addedAt < YOUNGEST_EVICTED_MS))
      throw full('the store of clients is full')
    newClients.delete(leaver.key)
  }
}

/** Makes room for one more client with tokens, by evicting the oldest of the user who holds the most. */
function makeUsedRoom(
  { clients }: ClientPools,
  { holder, bytes }: Needed,
  { mostClients }: Pick<ClientBounds, 'mostClients'>,
): void {
  const isRoomy = () =>
    clients.size < mostClients * USED && clients.held + clients.needed(holder, bytes) <= clients.most * USED
  if (isRoomy()) return
  clients.purgeLately()
  while (!isRoomy()) {
    const leaver = clients.leaver(holder, bytes)
    if (leaver === undefined) return
    clients.delete(leaver.key)
  }
}

/** Stores texts synchronously, so that nothing runs in between. */
interface Texts {
  get(kind: Kind, name: string): string | undefined
  set(kind: Kind, name: string, text: string, term: Term): void
  delete(kind: Kind, name: string): void
  now(): number
}

/** Stores sets among the texts of a memory store, with the same size limits. */
function memorySets({ now, ...texts }: Texts): Pick<RecordStore, 'addMember' | 'members' | 'removeMember'> {
  const findMembers = (kind: Kind, name: string) => readMembers(texts.get(kind, name), now())

  function write(kind: Kind, name: string, members: readonly Member[], by?: HeldBy): void {
    const [longest] = members
    if (longest === undefined) texts.delete(kind, name)
    else texts.set(kind, name, textOfMembers(members), { ttlS: Math.ceil((longest.endsAt - now()) / 1000), by })
  }

  return {
    async addMember(kind, name, member, term) {
      const added = { member, endsAt: Math.ceil(now() / 1000 + readSeconds(term)) * 1000 }
      write(kind, name, withMember(findMembers(kind, name), added), readHolder(term))
      // A member that has left still counts in the share of its holder, so none is reported.
      return []
    },
    members: async (kind, name) => findMembers(kind, name),
    async removeMember(kind, name, member) {
      const left = findMembers(kind, name).filter((one) => one.member !== member)
      write(kind, name, left)
    },
  }
}

/** Writes a set as a text, with expiries in whole seconds. Names contain neither `:` nor `,`. */
function textOfMembers(members: readonly Member[]): string {
  return members.map(({ member, endsAt }) => `${member}:${(endsAt / 1000).toString(36)}`).join(',')
}

/** Returns the members that have not expired, the last to expire first. */
function readMembers(text: string | undefined, now: number): readonly Member[] {
  if (text === undefined || text === '') return []
  const members = text.split(',').map((part) => {
    const [member = '', end = ''] = part.split(':')
    return { member, endsAt: Number.parseInt(end, 36) * 1000 }
  })
  return members.filter(({ endsAt }) => endsAt > now)
}

/**
 * Returns the set with a member added or its expiry changed. It stands before others that expire in the same second.
 */
function withMember(members: readonly Member[], added: Member): readonly Member[] {
  const others = members.filter(({ member }) => member !== added.member)
  return [added, ...others].sort((a, b) => b.endsAt - a.endsAt).slice(0, MOST_MEMBERS)
}

const MIB = 1024 * 1024

/** The memory limit of remembered client keys. */
const CLIENT_KEYS = MIB / 4

/** The limits for a process with unlimited memory, or with so much that a quarter of it exceeds them. */
const MOST = {
  // The sum of both client pools.
  clients: 64 * MIB,
  newClients: 64 * MIB,
  grants: 164 * MIB - CLIENT_KEYS,
  tokens: 64 * MIB,
}
/**
 * The limit of used assertions. They are small and never evicted: without its record an assertion could be used again.
 */
const MARKS = 4 * MIB
/** The same limit for assertions that authenticate clients. */
const CLIENT_MARKS = 2 * MIB
/** The same limit for proofs of possession: 7,000 of the last five minutes. */
const PROOF_MARKS = 2 * MIB
/** The limit of logins in progress and of pages for users who have logged in. */
const MOST_PENDING = 20 * MIB
const LEAST_PENDING = 4 * MIB
/** The share of those pages in that limit, so that a user with many pages evicts no login. */
const PAGES = 3 / 20
const MOST_SCALED = MOST.clients + MOST.grants + MOST.tokens
const MOST_IN_ALL = MOST_SCALED + MOST_PENDING + MARKS + CLIENT_MARKS + PROOF_MARKS + CLIENT_KEYS
/** The memory use of an idle gateway. */
const IDLE = 128 * MIB
const LEAST_IN_ALL = 16 * MIB

/**
 * Returns the byte limits of everything that an authorization server keeps in memory: a quarter of what an idle gateway
 * leaves of `memoryBytes`. The rest is for requests and the catalogs of backends.
 */
export function memoryParts(memoryBytes = Number.POSITIVE_INFINITY) {
  const inAll = Math.min(Math.max((memoryBytes - IDLE) / 4, LEAST_IN_ALL), MOST_IN_ALL)
  const pending = Math.max((inAll / MOST_IN_ALL) * MOST_PENDING, LEAST_PENDING)
  const scale = (inAll - MARKS - CLIENT_MARKS - PROOF_MARKS - CLIENT_KEYS - pending) / MOST_SCALED
  const { tokens, ...pools } = MOST
  const scaled = Object.entries(pools).map(([pool, bytes]) => [pool, Math.floor(bytes * scale)])
  return {
    records: {
      ...(Object.fromEntries(scaled) as Record<keyof typeof pools, number>),
      pending: Math.floor(pending * (1 - PAGES)),
      pages: Math.ceil(pending * PAGES),
      marks: MARKS,
      clientMarks: CLIENT_MARKS,
      proofMarks: PROOF_MARKS,
      clientKeys: CLIENT_KEYS,
    } satisfies Record<Pool, number>,
    /** The limit of provider tokens. */
    tokens: Math.floor(tokens * scale),
  }
}
