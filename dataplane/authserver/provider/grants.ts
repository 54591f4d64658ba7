import type { Logger } from 'pino'
import type { Place, UpstreamTokenSet, UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { RecordStore } from '../store/record-store.ts'
import type { Payload } from './library.ts'
import type { Revocations } from './revocations.ts'

/** Who has logged in, as access tokens say it besides the subject. */
export interface UserClaims {
  readonly name?: string
  readonly email?: string
}

interface GrantRecord {
  readonly payload: Payload
  readonly user: UserClaims
}

/** What users have granted to clients. A grant is one login: its id is what access tokens name the login by. */
export interface Grants {
  /** Says who has logged in, before the library keeps the grant. */
  describe(id: string, user: UserClaims): Promise<void>
  keep(id: string, payload: Payload): Promise<void>
  find(id: string): Promise<Payload | undefined>
  userOf(id: string): Promise<UserClaims>
  /** It is used: it lives on for a whole lifespan. */
  renew(id: string): Promise<void>
  /** Ends it: its tokens, those that are out already, and what providers have given at its login. */
  end(id: string): Promise<void>
}

interface GrantsOptions {
  readonly store: RecordStore
  readonly revocations: Revocations
  /** Seconds that a grant lives without being renewed. */
  readonly ttlS: number
  /** What providers gave at logins, and their names. */
  readonly tokens: UpstreamTokenStore
  readonly providers: readonly string[]
  /** Called with what a provider gave at a login that has been ended. */
  readonly onEnded?: (provider: string, set: UpstreamTokenSet) => Promise<void>
  readonly log: Logger
}

export function createGrants(options: GrantsOptions): Grants {
  const { store, revocations, ttlS, tokens, providers, onEnded, log } = options
  async function read(id: string): Promise<GrantRecord | undefined> {
    const text = await store.get('grant', id)
    return text === undefined ? undefined : (JSON.parse(text) as GrantRecord)
  }
  const write = (id: string, record: Partial<GrantRecord>) => store.set('grant', id, JSON.stringify(record), ttlS)

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
    describe: (id, user) => write(id, { user }),
    keep: async (id, payload) => write(id, { ...(await read(id)), payload }),
    find: async (id) => (await read(id))?.payload,
    userOf: async (id) => (await read(id))?.user ?? {},
    async renew(id) {
      await store.extend('grant', id, ttlS)
      for (const provider of providers) await keepTokens({ login: id, provider })
    },
    async end(id) {
      // Tokens that are out come first: what follows only frees memory.
      await revocations.add(id)
      await Promise.all([store.delete('grant', id), store.delete('refresh', id)])
      await forgetTokens(id).catch((error: unknown) => log.warn({ err: error }, 'tokens of a login are not forgotten'))
    },
  }
}
