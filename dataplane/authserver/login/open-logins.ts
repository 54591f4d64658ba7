import type { Logger } from 'pino'
import type { AuthServerConfig } from '../../config/auth-server.ts'
import { isOnDemand, primaryOf } from '../../config/authserver/provider.ts'
import type { Sealer, UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { KeyedHash } from '../keys/keyed-hash.ts'
import type { Grants } from '../provider/grants.ts'
import { LOGIN_TIME_S } from '../provider/provider.ts'
import type { Revocations } from '../provider/revocations.ts'
import type { Settings } from '../provider/settings.ts'
import type { RecordStore } from '../store/record-store.ts'
import type { CarriedTokens } from './carried-tokens.ts'
import { ChainLogin } from './chain-login.ts'
import { type AuthorizationRequests, type ConsentedLogin, consentedLogin } from './consented-login.ts'
import { LoginLinks } from './login-links.ts'
import type { LoginsUnderWay } from './logins-under-way.ts'
import type { Upstream } from './upstream/upstream.ts'

interface LoginParts {
  readonly upstreams: readonly Upstream[]
  readonly requests: () => AuthorizationRequests
  readonly pageSealer: Sealer
  readonly loginsUnderWay: LoginsUnderWay | undefined
  readonly settings: Settings
  readonly store: RecordStore
  readonly tokens: UpstreamTokenStore
  readonly carried: CarriedTokens
  readonly keyed: () => KeyedHash
  readonly grants: Grants
  readonly revocations: Revocations
  /** Log of the request that is answered. */
  log(): Logger
}

/** Both ways to the providers: for a client, and for what a client needs later. */
export function openLogins(
  config: AuthServerConfig,
  { upstreams, settings, grants, revocations, ...parts }: LoginParts,
): { readonly login: ConsentedLogin; readonly loginLinks: LoginLinks } {
  const { issuer, grantS, freshGrantS, linkEndpoint, callbackNames } = settings
  const times = { loginS: LOGIN_TIME_S, keepS: freshGrantS }
  const primary = primaryOf(config)?.name ?? ''
  const onDemand = new Set(config.upstreamProviders.filter(isOnDemand).map(({ name }) => name))
  const chain = new ChainLogin({ ...parts, ...times, issuer, upstreams, primary, onDemand, callbackNames })
  const forgetTokens = (login: string) => parts.tokens.removeLogin(login)
  const login = consentedLogin({ ...parts, ...times, login: chain, forgetTokens })
  const places = { primary, onDemand, url: linkEndpoint }
  const loginLinks = new LoginLinks({ ...parts, ...times, keepS: grantS, grants, revocations, login, ...places })
  return { login, loginLinks }
}
