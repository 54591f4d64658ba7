import { type IdentityProvider, startIdentityProvider } from '../../test/support/network/identity-provider.ts'
import { formatTeam, SOURCES } from './catalogs.ts'

const AUDIENCE = 'https://registry.bench'

export const computeShare = (caller: Caller) => (caller === 'one team, 5 %' ? 1 / SOURCES : 1)

/** All but `anonymous` have a token. `root` sees everything by its role; the others by claims. */
export const callers = {
  anonymous: undefined,
  root: { role: 'root' },
  'every team': { team: Array.from({ length: SOURCES }, (_, index) => formatTeam(index)) },
  'one team, 5 %': { team: formatTeam(7) },
} as const
export type Caller = keyof typeof callers

/** The claims of the entries that are published. */
export const PUBLISHED = { team: formatTeam(7) }

export interface Callers {
  /** `auth` of a configuration in which tokens and claims count. */
  readonly auth: object
  buildHeader(caller: Caller | 'writer'): Promise<string | undefined>
  close(): Promise<void>
}

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
    async buildHeader(caller) {
      const claims = caller === 'writer' ? { ...PUBLISHED, role: 'writer' } : callers[caller]
      if (claims === undefined) return undefined
      return `Bearer ${await issuer.mint({ aud: AUDIENCE, sub: caller, ...claims }, { expiresIn: 3600 })}`
    },
    close: () => issuer.close(),
  }
}
