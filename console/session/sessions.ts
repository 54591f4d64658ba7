import { createHmac, hash, timingSafeEqual } from 'node:crypto'
import type { Context, Hono } from 'hono'
import type { Viewer } from '../places/place.ts'

/** A viewer's session. */
export interface Session {
  readonly id: string
  readonly viewer: Viewer
  /** True if the viewer can log out. */
  readonly canLogOut: boolean
}

/** The way in which viewers get a session: a one-time link on their own machine, or a login. */
export interface Sessions {
  /** True on the viewer's own machine, where even links from pages of other origins are refused. */
  readonly isLocal: boolean
  /** The path at which a viewer without a session logs in; undefined if only a one-time link admits viewers. */
  readonly loginPath: string | undefined
  /** Returns the session of a request; undefined if it has none. */
  find(c: Context): Promise<Session | undefined>
  /** Adds the routes that need no session. */
  routes(app: Hono): void
  /** The number of sessions that exist in this process only. */
  readonly inMemory: number
  /** The key that signs form tokens. */
  readonly formKey: Buffer
}

/** Compares two texts in constant time. */
export const isEqual = (left: string, right: string): boolean =>
  timingSafeEqual(Buffer.from(hash('sha256', left, 'hex')), Buffer.from(hash('sha256', right, 'hex')))

/** Returns the token for a form of this session and path. */
export const formToken = (key: Buffer, session: string, path: string): string =>
  createHmac('sha256', key).update(`${session.length} ${session} ${path}`).digest('base64url')

/** Tells whether a token belongs to this session and path. */
export const isFormToken = (token: string, key: Buffer, session: string, path: string): boolean =>
  isEqual(token, formToken(key, session, path))
