import type { Logger } from 'pino'
import type { Place, UpstreamTokenSet, UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import { firstRecord, type HeldBy, type RecordStore } from '../store/record-store.ts'
import type { Payload } from './library.ts'
import type { Revocations } from './revocations.ts'

/** Who has logged in, as access tokens say it besides the subject. */
interface UserClaims {
  readonly name?: string
  readonly email?: string
}

interface GrantRecord {
  /** Absent until the library has kept it. */
  readonly payload?: Payload
  readonly user?: UserClaims
  readonly trace?: string | undefined
}

/** A grant of a user, as it is listed. */
export interface ListedGrant {
  readonly id: string
  readonly payload: Payload
  /** When it ends where it is used no more, in milliseconds since 1970. */
  readonly endsAt: number
}

/** What users have granted to clients. A grant is one login: its id is what access tokens name the login by. */
export interface Grants {
  /**
   * Says who has logged in, and the trace context of the request that the login began with, where that is traced; before
   * the library keeps the grant. `by`: who makes us keep it.
   */
  describe(
    id: string,
    login: { readonly user: UserClaims; readonly trace?: string | undefined },
    by?: HeldBy,
  ): Promise<void>
  keep(id: string, payload: Payload): Promise<void>
  find(id: string): Promise<Payload | undefined>
  userOf(id: string): Promise<UserClaims>
  /** Trace context of the request that its login began with; undefined where that is not traced. */
  traceOf(id: string): Promise<string | undefined>
  /** Those of a user that were used last, at most `MOST_MEMBERS`. */
  ofUser(subject: string): Promise<readonly ListedGrant[]>
  /** It is used: it lives on for a whole lifespan. */
  renew(id: string, subject: string): Promise<void>
  /** Ends it: its tokens, those that are out already, and what providers have given at its login. */
  end(id: string): Promise<void>
}

interface GrantsOptions {
  readonly store: RecordStore
  readonly revocations: Revocations
  /** Seconds that a grant lives once it has been renewed, and before that. */
  readonly ttlS: number
  readonly freshS: number
  /** What providers gave at logins, and their names. */
  readonly tokens: UpstreamTokenStore
  readonly providers: readonly string[]
  /** Called with what a provider gave at a login that has been ended. */
  readonly onEnded?: (provider: string, set: UpstreamTokenSet) => Promise<void>
  /** Log of the request that this is done for. */
  log(): Logger
}

const userHolder = (subject: unknown) => (typeof subject === 'string' ? [subject] : undefined)

export function createGrants(options: GrantsOptions): Grants {
  const { store, revocations, ttlS, freshS, tokens, providers, onEnded, log } = options
  const read = (id: string) => firstRecord<GrantRecord>([id], (name) => store.get('grant', name))
  const write = (id: string, record: GrantRecord, by?: HeldBy) =>
    store.set('grant', id, JSON.stringify(record), { ttlS: freshS, by })

  /** What a provider gave lives as long as the grant. A write of somebody else meanwhile has seen to that itself. */
  async function keepTokens(place: Place): Promise<void> {
    const set = await tokens.get(place)
    if (set !== undefined) await tokens.put(place, set, { replaces: set.version, ttlMs: ttlS * 1000 })
  }

  async function forgetTokens(login: string): Promise<void> {
    for (const provider of providers) {
      const set = await tokens.get({ login, provider })
      if (set !== undefined) await onEnded?.(provider, set)
    }
    await tokens.removeLogin(login)
  }

  return {
    describe: (id, login, by) => write(id, login, by),
    async keep(id, payload) {
      const record = { ...(await read(id)), payload }
      // Before the grant, so that there is none that its user can't see.
      await store.addMember('user', String(payload['accountId']), id, { ttlS: freshS, by: { grant: id } })
      await write(id, record)
    },
    find: async (id) => (await read(id))?.payload,
    userOf: async (id) => (await read(id))?.user ?? {},
    traceOf: async (id) => (await read(id))?.trace,
    async ofUser(subject) {
      const members = await store.members('user', subject)
      const found = await Promise.all(
        members.map(async ({ member: id, endsAt }) => ({ id, endsAt, payload: (await read(id))?.payload })),
      )
      // One that has ended in the middle of a write may still be a member.
      return found.filter((one): one is ListedGrant => one.payload?.['accountId'] === subject)
    },
    async renew(id, subject) {
      await store.addMember('user', subject, id, { ttlS, by: { grant: id } })
      await store.extend('grant', id, ttlS)
      for (const provider of providers) await keepTokens({ login: id, provider })
    },
    async end(id) {
      const reading = read(id).then((record) => record?.payload?.['accountId'])
      // Tokens that are out come first, whoever they are of: what follows only frees memory.
      await revocations.add(id, await reading.then(userHolder, () => undefined))
      const subject = await reading
      await Promise.all([
        store.delete('grant', id),
        store.delete('refresh', id),
        typeof subject === 'string' && store.removeMember('user', subject, id),
      ])
      await forgetTokens(id).catch((error: unknown) =>
        log().warn({ err: error }, 'tokens of a login are not forgotten'),
      )
    },
  }
}
