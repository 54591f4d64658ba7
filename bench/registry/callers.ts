import { type IdentityProvider, startIdentityProvider } from '../../test/support/network/identity-provider.ts'
import { SOURCES, teamOf } from './catalogs.ts'

const AUDIENCE = 'https://registry.bench'

/** What part of the catalog a caller sees. */
export const shareOf = (caller: Caller) => (caller === 'one team, 5 %' ? 1 / SOURCES : 1)

/** Who reads. All but `anonymous` come with a token, and by claims alone see what they see; `root` sees all by its role. */
export const callers = {
  anonymous: undefined,
  root: { role: 'root' },
  'every team': { team: Array.from({ length: SOURCES }, (_, index) => teamOf(index)) },
  'one team, 5 %': { team: teamOf(7) },
} as const
export type Caller = keyof typeof callers

/** The claims of the entries that are published. */
export const PUBLISHED = { team: teamOf(7) }

export interface Callers {
  /** What a configuration has as `auth`, so that tokens and claims count. */
  readonly auth: object
  /** The `Authorization` of a caller; undefined: none. */
  headerOf(caller: Caller | 'writer'): Promise<string | undefined>
  close(): Promise<void>
}

/** Starts the issuer of the callers' tokens, on this machine. */
export async function startCallers(): Promise<Callers> {
  const issuer: IdentityProvider = await startIdentityProvider()
  return {
    auth: {
      mode: 'oauth',
      oauth: {
        resourceUrl: AUDIENCE,
        providers: [{ name: 'bench', issuerUrl: issuer.issuer, audience: AUDIENCE }],
      },
      authz: { roles: { superAdmin: [{ role: 'root' }], manageEntries: [{ role: 'writer' }] } },
    },
    async headerOf(caller) {
      const claims = caller === 'writer' ? { ...PUBLISHED, role: 'writer' } : callers[caller]
      if (claims === undefined) return undefined
      return `Bearer ${await issuer.mint({ aud: AUDIENCE, sub: caller, ...claims }, { expiresIn: 3600 })}`
    },
    close: () => issuer.close(),
  }
}
