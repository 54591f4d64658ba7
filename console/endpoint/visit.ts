import type { Context } from 'hono'
import type { LRUCache } from 'lru-cache'
import type { WorkloadLogins } from '../mcp/logins.ts'
import type { WorkloadTokens } from '../mcp/tokens.ts'
import type { Child } from '../pages/element.ts'
import type { Places, World } from '../places/place.ts'
import type { Prometheus } from '../places/prometheus.ts'
import type { Session } from '../session/sessions.ts'

/** The input that a viewer had entered on a page before a login. */
export interface TypedInput {
  readonly path: string
  readonly values: Readonly<Record<string, string>>
}

/** One request of a viewer. */
export interface Visit {
  readonly c: Context
  readonly places: Places
  readonly session: Session
  readonly world: World
  /** Undefined if none is configured. */
  readonly prometheus: Prometheus | undefined
  readonly tokens: WorkloadTokens
  /** The logins for workloads that viewers have begun. */
  readonly logins: WorkloadLogins
  /** The input that viewers entered on a page before a login, by session. */
  readonly typed: LRUCache<string, TypedInput>
  /** The origin of the console's pages. */
  readonly origin: string
  /** Milliseconds since 1970. */
  readonly now: number
  /** True for a page, which does not wait long for slow parts; false for JSON, which waits. */
  readonly isPage: boolean
  query(name: string): string | undefined
  param(name: string): string
  /** Aborted when the viewer disconnects. */
  readonly signal: AbortSignal
  /** Reports the progress of a call, if the page shows it. */
  onProgress(line: string): void
  /** The fields of a form that was sent; undefined for a GET. */
  readonly form: URLSearchParams | undefined
  /** Returns the token for a form that is sent to this path. */
  formToken(path: string): string
}

/** The result of a page: its facts and their view. */
export interface Answer {
  readonly title: string
  readonly facts: object
  readonly content: Child
  /** False for pages that are not refreshed, such as forms. */
  readonly isLive?: boolean
  /** The facts as CSV, which is sent instead of the page. */
  readonly csv?: string
  /**
   * The console page to go to next. An HTTP redirect would continue a chain that began at another site, and the guard
   * refuses requests of other sites (`Sec-Fetch-Site`).
   */
  readonly goTo?: string
  readonly status?: 200 | 400 | 403 | 404 | 413 | 502
}

export type Page = (visit: Visit) => Promise<Answer>

/** The time that a page waits for slow parts, in milliseconds. */
export const BRIEF_MS = 2_000

/** Waits for a part. For a page it returns undefined after two seconds. */
export async function waitBriefly<T>(work: Promise<T>, isPage: boolean): Promise<T | undefined> {
  if (!isPage) return work
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, BRIEF_MS, undefined)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
    work.catch(() => undefined)
  }
}
