import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from 'pino'
import { lifespanBounds } from '../../../crds/settings/auth/bounds.ts'
import { parseDuration } from '../../../crds/settings/duration.ts'
import type { UpstreamTokenSet, UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import { firstRecord, type HeldBy, type RecordStore } from '../store/record-store.ts'
import type { Payload } from './library.ts'
import type { Revocations } from './revocations.ts'
import { IDENTIFIED_CLAIM, type MarkOfProvider } from './rule-marks.ts'

/** The claims of access tokens about the user, besides the subject. */
interface UserClaims {
  readonly name?: string
  readonly email?: string
}

interface GrantRecord {
  /** Absent until the library has stored the grant. */
  readonly payload?: Payload
  readonly user?: UserClaims
  readonly trace?: string | undefined
  /** Name of the provider that has identified the user. */
  readonly by?: string | undefined
  /** The mark of that provider at the login. */
  readonly mark?: string | undefined
}

/** A grant of a user, as listings show it. */
export interface ListedGrant {
  readonly id: string
  readonly payload: Payload
  /** The time when the grant expires if it is not used again, in milliseconds since 1970. */
  readonly endsAt: number
}

/** The grants of users to clients. A grant is one login, and its id names the login in access tokens. */
export interface Grants {
  /**
   * Stores the user of a login and, if it is traced, the trace context of the request that began it. The library stores
   * the grant afterwards. `holder`: the holder of the record.
   */
  describe(
    id: string,
    login: { readonly user: UserClaims; readonly trace?: string | undefined; readonly by?: string | undefined },
    holder?: HeldBy,
  ): Promise<void>
  keep(id: string, payload: Payload): Promise<void>
  /** Returns a grant, unless everything of its user has ended, or the provider of its login is there no longer. */
  find(id: string): Promise<Payload | undefined>
  findUser(id: string): Promise<UserClaims>
  /** Returns the claims of access tokens about the user, and about the provider that the login depends on. */
  tokenClaims(id: string): Promise<Readonly<Record<string, unknown>>>
  /** Returns the name of the provider that identified the user; undefined if none was stored. */
  identifiedBy(id: string): Promise<string | undefined>
  /** Returns the trace context of the request that began the login; undefined if it is not traced. */
  findTrace(id: string): Promise<string | undefined>
  /** Returns the most recently used grants of a user, at most `MOST_MEMBERS`. */
  ofUser(subject: string): Promise<readonly ListedGrant[]>
  /** Marks a grant as used: it lives for another full lifespan. */
  renew(id: string, subject: string): Promise<void>
  /** Ends a grant, with its issued tokens and the provider tokens of its login. */
  end(id: string): Promise<void>
  /**
   * Ends all grants of a user, listed or not, and all tokens that were issued for the user until now. It takes up to a
   * second, because tokens state the second of their issue only: a login after this call must have a later second.
   */
  endAll(subject: string): Promise<void>
  /** Tells whether everything of a user has ended in or after a second (since 1970). */
  haveEnded(subject: string, since: unknown): Promise<boolean>
}

interface GrantsOptions {
  readonly store: RecordStore
  readonly revocations: Revocations
  /** The lifetime of a grant after a renewal, and before the first one, in seconds. */
  readonly ttlS: number
  readonly freshS: number
  /** The store of provider tokens, and the names of the providers. */
  readonly tokens: UpstreamTokenStore
  readonly providers: readonly string[]
  /** Absent: a login depends on no provider. */
  readonly markOf?: MarkOfProvider
  /** Called with the provider tokens of a login that has ended. */
  readonly onEnded?: (provider: string, set: UpstreamTokenSet) => Promise<void>
  log(): Logger
}

const nowS = (): number => Math.floor(Date.now() / 1000)

/**
 * The longest lifetime of a grant under any configuration, in seconds: those of now may be shorter than those under which
 * an earlier grant was made.
 */
const LONGEST_GRANT_S =
  (parseDuration(lifespanBounds.refreshTokenLifespan.to) + parseDuration(lifespanBounds.authCodeLifespan.to)) / 1000

/** Stores when everything of a user has ended, for as long as an earlier grant may live. */
function endedUsers({ store, revocations }: Pick<GrantsOptions, 'store' | 'revocations'>) {
  return {
    /** Ends everything of a user. Returns the second up to which it has ended. */
    async end(subject: string): Promise<number> {
      const second = nowS()
      await store.set('endedUser', subject, String(second), { ttlS: LONGEST_GRANT_S, by: [subject] })
      await revocations.addUser(subject, second)
      return second
    },
    /** Tells whether something that was issued in this second has ended with everything of its user. */
    async haveEnded(subject: string, since: unknown): Promise<boolean> {
      const second = await store.get('endedUser', subject)
      return second !== undefined && !(Number(since) > Number(second))
    },
  }
}

/** Keeps the tokens that providers gave at logins for as long as the login's grant. */
function tokensOfLogins({ tokens, providers, onEnded, ttlS }: GrantsOptions) {
  return {
    /** Extends the lifetime of provider tokens to that of the grant. A concurrent write has already extended it. */
    async keep(login: string): Promise<void> {
      for (const provider of providers) {
        const set = await tokens.get({ login, provider })
        if (set !== undefined) await tokens.put({ login, provider }, set, { replaces: set.version, ttlMs: ttlS * 1000 })
      }
    },
    async forget(login: string): Promise<void> {
      for (const provider of providers) {
        const set = await tokens.get({ login, provider })
        if (set !== undefined) await onEnded?.(provider, set)
      }
      await tokens.removeLogin(login)
    },
  }
}

const userHolder = (subject: unknown) => (typeof subject === 'string' ? [subject] : undefined)

/** Tells whether the provider of a login is the one that it was. Earlier versions stored its name alone. */
function hasProvider({ by, mark }: GrantRecord, markOf: MarkOfProvider | undefined): boolean {
  if (by === undefined || markOf === undefined) return true
  const current = markOf(by)
  return current !== undefined && (mark ?? current) === current
}

const tokenClaims = ({ user, mark }: GrantRecord) => ({
  ...user,
  ...(mark !== undefined && { [IDENTIFIED_CLAIM]: mark }),
})

export function createGrants(options: GrantsOptions): Grants {
  const { store, revocations, ttlS, freshS, markOf, log } = options
  const users = endedUsers(options)
  const tokens = tokensOfLogins(options)
  const read = (id: string) => firstRecord<GrantRecord>([id], (name) => store.get('grant', name))
  const write = (id: string, record: GrantRecord, by?: HeldBy) =>
    store.set('grant', id, JSON.stringify(record), { ttlS: freshS, by })

  async function end(id: string): Promise<void> {
    const reading = read(id).then((record) => record?.payload?.['accountId'])
    // Issued tokens are revoked first, whoever owns them. The rest frees memory only.
    await revocations.add(id, await reading.then(userHolder, () => undefined))
    const subject = await reading
    await Promise.all([
      store.delete('grant', id),
      store.delete('refresh', id),
      typeof subject === 'string' && store.removeMember('user', subject, id),
    ])
    await tokens.forget(id).catch((error: unknown) => log().warn({ err: error }, 'tokens of a login can’t be removed'))
  }

  /**
   * Ends a grant that was evicted from a user's full set. A login in progress is spared: it expires if it is not used.
   */
  async function endOld(id: string, subject: string): Promise<void> {
    const payload = (await read(id))?.payload
    if (payload?.['accountId'] === subject && nowS() - Number(payload['iat']) > freshS) await end(id)
  }

  async function ofUser(subject: string): Promise<readonly ListedGrant[]> {
    const members = await store.members('user', subject)
    const found = await Promise.all(
      members.map(async ({ member: id, endsAt }) => ({ id, endsAt, payload: (await read(id))?.payload })),
    )
    // A grant that ended during a write may still be a member of the set.
    return found.filter((one): one is ListedGrant => one.payload?.['accountId'] === subject)
  }

  return {
    describe: (id, login, holder) => write(id, { ...login, mark: login.by && markOf?.(login.by) }, holder),
    async keep(id, payload) {
      const record = { ...(await read(id)), payload }
      // The member is added before the grant is stored, so that its user can see every grant.
      await store.addMember('user', String(payload['accountId']), id, { ttlS: freshS, by: { grant: id } })
      await write(id, record)
    },
    async find(id) {
      const { payload, ...record } = (await read(id)) ?? {}
      if (payload === undefined || !hasProvider(record, markOf)) return undefined
      if (!(await users.haveEnded(String(payload['accountId']), payload['iat']))) return payload
      return end(id).then(() => undefined)
    },
    findUser: async (id) => (await read(id))?.user ?? {},
    tokenClaims: async (id) => tokenClaims((await read(id)) ?? {}),
    identifiedBy: async (id) => (await read(id))?.by,
    findTrace: async (id) => (await read(id))?.trace,
    ofUser,
    async renew(id, subject) {
      const gone = await store.addMember('user', subject, id, { ttlS, by: { grant: id } })
      await store.extend('grant', id, ttlS)
      for (const one of gone) await endOld(one, subject)
      await tokens.keep(id)
    },
    end,
    haveEnded: users.haveEnded,
    async endAll(subject) {
      const second = await users.end(subject)
      await Promise.all((await ofUser(subject)).map(({ id }) => end(id)))
      while (nowS() <= second) await wait(1000 - (Date.now() % 1000))
    },
  }
}
