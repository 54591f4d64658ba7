import type { Context, Hono } from 'hono'
import type { Viewer } from '../places/place.ts'

/** A viewer's session. */
export interface Session {
  readonly id: string
  readonly viewer: Viewer
  /** Tells whether the viewer can log out. */
  readonly canLogOut: boolean
}

/** The ways in for viewers: a one-time link on their own machine, or a login. */
export interface Doors {
  /** True on one's own machine: pages of other origins may not even link here. */
  readonly isLocal: boolean
  /** The path at which a viewer without a session logs in; undefined if only a link lets in. */
  readonly loginPath: string | undefined
  /** Returns the session of a request; undefined if it has none. */
  find(c: Context): Promise<Session | undefined>
  /** Adds the routes that need no session. */
  routes(app: Hono): void
  /** The number of sessions that only this process holds. */
  readonly inMemory: number
  /** The key of form tokens. */
  readonly formKey: Buffer
}
