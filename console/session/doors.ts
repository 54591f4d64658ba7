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
export interface Doors {
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
