import type { Logger } from 'pino'
import type { UpstreamTokenStore } from '../../upstream-tokens/index.ts'
import type { KeyedHash } from '../keys/keyed-hash.ts'
import type { RecordStore } from '../store/record-store.ts'
import type { CarriedTokens } from './carried-tokens.ts'

/** What logins work with. */
export interface LoginParts {
  readonly store: RecordStore
  readonly keyed: () => KeyedHash
  readonly tokens: UpstreamTokenStore
  readonly carried: CarriedTokens
  /** How long a user may take at one provider, and how long what it gives is kept meanwhile; in seconds. */
  readonly loginS: number
  /** How long what providers have given is kept at the end, in seconds. */
  readonly keepS: number
  /** Log of the request that this is done for. */
  log(): Logger
}

/** An authorization request whose user has to be asked, or logs in. */
export interface PendingAuthorization {
  /** Names it towards the authorization server while that keeps it; a secret. */
  readonly uid: string
  /** Its parameters, as they have been accepted. */
  readonly request: string
  readonly clientId: string
  readonly clientName: string | undefined
  readonly redirectUri: string
  readonly scope: string
  readonly resource: string
  /** Who it has to be (`id_token_hint`), as `LoggedInUser` has it; absent: anybody. */
  readonly subject?: string
  /** How long ago the user may have logged in at providers, in seconds (`max_age`); 0: anew (`prompt=login`). */
  readonly maxAge?: number
  /** The user is asked whatever was allowed before (`prompt=consent`). */
  readonly isAskedAnew?: boolean
  /** Trace context (W3C) of the request, where that is traced. */
  readonly trace?: string
}

/** Who has logged in. */
export interface LoggedInUser {
  /** The user's name in our tokens: one for each user of each provider. */
  readonly subject: string
  readonly name?: string
  readonly email?: string
}

/**
 * What users log in for: a client that is to have tokens, to see what is linked to them, or what a client needs at one
 * more provider.
 */
export type Purpose = 'authorize' | 'account' | 'link'

/** A way through providers. */
export interface Course {
  readonly purpose: Purpose
  /** Names what waits for its end, towards whoever has begun it; a secret. */
  readonly uid: string
  /** Names of the providers, in order; the one that says who users are is among them. */
  readonly providers: readonly string[]
  /** Who it has to be, as `LoggedInUser` has it; absent: anybody. */
  readonly subject?: string
  /** How long ago the user may have logged in at them, in seconds; 0: anew. */
  readonly maxAge?: number
  /** Trace context of the request that it was begun by, where that is traced. */
  readonly trace?: string
}

/** The browser goes on elsewhere. */
export interface Respond {
  readonly kind: 'respond'
  readonly response: Response
}

/** The user is asked whether the client may; `token` goes back with the answer. */
export interface Ask {
  readonly kind: 'ask'
  readonly authorization: Omit<PendingAuthorization, 'uid'>
  readonly token: string
}

/** The user is known: the client gets its code. */
export interface Done {
  readonly kind: 'done'
  readonly purpose: Purpose
  readonly uid: string
  /** Names what the providers have given. */
  readonly login: string
  readonly user: LoggedInUser
  /** When that was, in seconds since 1970, where the provider says it. */
  readonly authTime?: number
  /** The subject is of this login alone, and never comes again. */
  readonly isSynthetic?: boolean
}

/** The client is told that it failed. */
export interface Failed {
  readonly kind: 'failed'
  readonly purpose: Purpose
  readonly uid: string
  readonly error: LoginError
  /** Where a provider is at fault: nobody at a browser can cure that, and it is told before the client is. */
  readonly fault?: LoginFault
}

export interface LoginFault {
  /** Name of the provider. */
  readonly provider: string
  readonly code: string
}

/** There is no request that this belongs to: nobody but the person at the browser can be told. */
export interface Refused {
  readonly kind: 'refused'
}

/** What comes next in a login; which steps follow on which stands in `endpoint/login/steps.ts`. */
export type LoginStep = Respond | Ask | Done | Failed | Refused

/**
 * Why a login has failed; `other_user`: it is not the person who it has to be, `stale_login`: a provider has not had the
 * person log in as lately as it was asked to, `busy`: too many are under way.
 */
export type LoginError = 'access_denied' | 'server_error' | 'other_user' | 'stale_login' | 'busy'

/** Where somebody has come back to in a login. */
export interface Waypoint extends Pick<Course, 'purpose' | 'uid' | 'trace'> {
  /** Name of the provider that they come from; absent: from the page that asks for consent. */
  readonly provider?: string
}

/** The browser at the other end. */
export interface Browser {
  /** A secret that this browser alone holds, in a cookie. */
  readonly id: string
  /** Where its request comes from. */
  readonly address?: string | undefined
}

/** Finds out who the user is: what lies between an authorization request and its code. */
export interface Login {
  begin(authorization: PendingAuthorization, browser: Browser): Promise<Respond | Failed>
  /** Sends a browser through providers for something else than an authorization request. */
  pass(course: Course, browser: Browser): Promise<Respond | Failed>
  /**
   * What a provider has sent a browser back with; parameters that came more than once are not among them. `onFound` is told
   * which login that belongs to. `at`: what names a provider in the path that the browser has come back to.
   */
  callback(
    parameters: URLSearchParams,
    browser: Browser | undefined,
    onFound?: (waypoint: Waypoint) => void,
    at?: string,
  ): Promise<Respond | Done | Failed | Refused>
  close(): Promise<void>
}
