import {
  findLoginUrl,
  findPrimaries,
  isOnDemand,
  keyProviders,
  keyUrlOf,
  linkedUrlOf,
  loginProviders,
} from '../../config/authserver/provider.ts'
import type { GatewayConfig } from '../../config/gateway.ts'
import type { CallNeed, Explanation, LoginNeed } from '../../policy/index.ts'

type Asked = Pick<GatewayConfig, 'authServer' | 'incomingAuth' | 'backends'>

/**
 * Returns what a caller needs for a call to these backends. `scopes`: those of the tool, in addition to the endpoint's.
 */
export function callNeeds(
  { authServer, incomingAuth, backends }: Asked,
  named: readonly string[],
  scopes: readonly string[] = [],
): readonly CallNeed[] {
  if (incomingAuth.type === 'anonymous') return []
  const issuer = authServer?.issuer ?? incomingAuth.oidc?.issuer
  const login: LoginNeed = {
    kind: 'login',
    scopes: [...new Set([...(incomingAuth.oidc?.scopes ?? []), ...scopes])],
    links: issuer === undefined ? [] : [issuer],
  }
  if (authServer === undefined) return [login]
  const own = backends.flatMap(({ name: backend, credential }): readonly CallNeed[] => {
    const provider = credential?.upstreamInject?.providerName
    if (provider === undefined || !named.includes(backend)) return []
    const key = keyProviders(authServer).find(({ name }) => name === provider)
    if (key !== undefined) {
      const { title, helpUrl } = key.keyConfig
      const help = helpUrl === undefined ? {} : { helpUrl }
      return [{ kind: 'key', backend, provider, title, ...help, links: [keyUrlOf(authServer, provider)] }]
    }
    const found = authServer.upstreamProviders.find(({ name }) => name === provider)
    if (found === undefined || !isOnDemand(found)) return []
    return [{ kind: 'account', backend, provider, host: findLoginUrl(found).host, links: [linkedUrlOf(authServer)] }]
  })
  return [login, ...own]
}

export const withNeeds = (explanation: Explanation, needs: readonly CallNeed[]): Explanation =>
  needs.length === 0 ? explanation : { ...explanation, needs }

/** The needs of a gateway's tools as anybody may see them. They derive from settings and reveal no backend or tool. */
export interface NeedsOfTools {
  readonly scopes: readonly { readonly rule: string; readonly scopes: readonly string[] }[]
  /** The hosts at which users need accounts for some tools. */
  readonly accounts: readonly string[]
  readonly keys: readonly { readonly title: string; readonly link: string; readonly helpUrl?: string }[]
  /** The page where users see their accounts and keys; absent if there are none. */
  readonly linked?: string
}

export function needsOfTools({ authServer, incomingAuth }: Asked): NeedsOfTools {
  const scopes = (incomingAuth.scopeRules ?? []).map(({ name, scopes }) => ({ rule: name, scopes }))
  if (authServer === undefined) return { scopes, accounts: [], keys: [] }
  const accounts = loginProviders(authServer.upstreamProviders).filter(isOnDemand)
  const keys = keyProviders(authServer).map(({ name, keyConfig: { title, helpUrl } }) => ({
    title,
    link: keyUrlOf(authServer, name),
    ...(helpUrl !== undefined && { helpUrl }),
  }))
  const hasLogins = findPrimaries(authServer).length > 0
  return {
    scopes,
    accounts: [...new Set(accounts.map((provider) => findLoginUrl(provider).host))],
    keys,
    ...(hasLogins && { linked: linkedUrlOf(authServer) }),
  }
}
