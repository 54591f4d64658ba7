import type { Logger } from 'pino'
import type { UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { KeyedHash } from '../keys/keyed-hash.ts'
import type { RecordStore } from '../store/record-store.ts'
import type { CarriedTokens } from './carried-tokens.ts'

export interface LoginParts {
  readonly store: RecordStore
  readonly keyed: () => KeyedHash
  readonly tokens: UpstreamTokenStore
  readonly carried: CarriedTokens
  /** The time for the login at one provider, in seconds. Tokens of earlier providers are kept for as long. */
  readonly loginS: number
  /** The time for which the tokens of a completed login are kept, in seconds. */
  readonly keepS: number
  log(): Logger
}

/** An authorization request whose user has to consent or is logging in. */
export interface PendingAuthorization extends Pick<LoginFlow, 'uid' | 'subject' | 'maxAge' | 'trace'> {
  /** Its parameters, as accepted. */
  readonly request: string
  readonly clientId: string
  readonly clientName: string | undefined
  readonly redirectUri: string
  readonly scope: string
  readonly resource: string
  /** True if the user is asked even after an earlier consent (`prompt=consent`). */
  readonly isAskedAnew?: boolean
}

export interface LoggedInUser {
  /** The user's subject in our tokens: one for each user of each provider. */
  readonly subject: string
  readonly name?: string
  readonly email?: string
}

/** The purpose of a login: tokens for a client, the page of links, or one more provider that a client needs. */
export type Purpose = 'authorize' | 'account' | 'link'

export interface LoginFlow {
  readonly purpose: Purpose
  /** The id of the request or page that waits for the login; a secret. */
  readonly uid: string
  /** Names of the providers, in order. One that identifies users is among them. */
  readonly providers: readonly string[]
  /** The required user (`id_token_hint`), as in `LoggedInUser`; absent: anybody. */
  readonly subject?: string
  /** The longest time since the last login at providers, in seconds (`max_age`); 0: a new login (`prompt=login`). */
  readonly maxAge?: number
  /** Trace context (W3C) of the request that began the login, if it is traced. */
  readonly trace?: string
}

/** A flow whose providers may not be chosen yet. */
export type Open<Of extends LoginFlow> = Omit<Of, 'providers'> & Partial<Pick<Of, 'providers'>>

/** The browser is redirected. */
export interface Respond {
  readonly kind: 'respond'
  readonly response: Response
}

/** The user is asked for consent to the client. `token` comes back with the answer. */
export interface Ask {
  readonly kind: 'ask'
  readonly authorization: Omit<PendingAuthorization, 'uid'>
  readonly token: string
}

/** The user is asked which of several providers they log in at. `token` comes back with the answer. */
export interface Choose extends Pick<LoginFlow, 'purpose' | 'uid'> {
  readonly kind: 'choose'
  readonly token: string
  /** True if the page lists all providers and asks for no address. */
  readonly isListed: boolean
}

/** The user is known, and the client gets its code. */
export interface Done extends Pick<LoginFlow, 'purpose' | 'uid'> {
  readonly kind: 'done'
  /** The name under which the providers' tokens are kept. */
  readonly login: string
  readonly user: LoggedInUser
  /** Name of the provider that has identified the user. */
  readonly by: string
  /** The time of the login, in seconds since 1970, if the provider reports it. */
  readonly authTime?: number
  /** True if the subject is valid for this login only and never recurs. */
  readonly isSynthetic?: boolean
}

/** The login has failed, and the client is informed. */
export interface Failed extends Pick<LoginFlow, 'purpose' | 'uid'> {
  readonly kind: 'failed'
  readonly error: LoginError
  /** Present if the provider is at fault. Users can't fix that, so a page shows it before the client is informed. */
  readonly fault?: LoginFault
}

export interface LoginFault {
  readonly provider: string
  readonly code: string
}

/** No pending request matches. There is no client to report to, only the user in the browser. */
export interface Refused {
  readonly kind: 'refused'
}

/** The next step of a login. `endpoint/login/steps.ts` lists which steps follow which. */
export type LoginStep = Respond | Ask | Choose | Done | Failed | Refused

/**
 * The reason why a login failed. `other_user`: a different user than required has logged in. `stale_login`: the user's
 * last login at a provider is older than requested. `busy`: too many logins are under way.
 */
export type LoginError = 'access_denied' | 'server_error' | 'other_user' | 'stale_login' | 'busy'

/** The login that a browser has returned to. */
export interface FlowPosition extends Pick<LoginFlow, 'purpose' | 'uid' | 'trace'> {
  /** Name of the provider that the browser comes from; absent: it comes from a page of this server. */
  readonly provider?: string
}

/** The browser that sent a request. */
export interface Browser {
  /** A secret that this browser alone holds, in a cookie. */
  readonly id: string
  readonly address?: string | undefined
}
