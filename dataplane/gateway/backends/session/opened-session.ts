import { hash } from 'node:crypto'
import { isObject } from '../../../../crds/settings/json.ts'

/** Visible ASCII (2025-11-25, session management); anything else could not be sent back. */
export const SESSION_ID = /^[\x21-\x7e]{1,1024}$/
const REVISION = /^\d{4}-\d\d-\d\d$/

/** What a backend said when a session was opened. */
export interface Opened {
  /** Absent where the backend keeps no sessions. */
  readonly sessionId: string | undefined
  readonly revision: string
  readonly capabilities: Readonly<Record<string, unknown>>
}

/** A session with the backend at this URL as text for other replicas. The URL, which may hold a key, is not in it. */
export const sharedSessionText = (opened: Opened, url: string): string =>
  JSON.stringify({ ...opened, at: digestOf(url) })

/**
 * The session that another replica has described. Undefined where the backend is at another URL by now, which knows nothing of that
 * session, and for what no replica of this version has written.
 */
export function parseSharedSession(text: string, url: string): Opened | undefined {
  try {
    const kept: unknown = JSON.parse(text)
    if (!isObject(kept) || kept['at'] !== digestOf(url)) return undefined
    const { sessionId, revision, capabilities } = kept
    if (typeof revision !== 'string' || !REVISION.test(revision) || !isObject(capabilities)) return undefined
    if (sessionId === undefined) return { sessionId, revision, capabilities }
    return typeof sessionId === 'string' && SESSION_ID.test(sessionId)
      ? { sessionId, revision, capabilities }
      : undefined
  } catch {
    return undefined
  }
}

const digestOf = (url: string): string => hash('sha256', url, 'base64url')
