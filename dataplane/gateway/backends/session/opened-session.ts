import { hash } from 'node:crypto'
import { isObject } from '../../../../crds/settings/json.ts'

/**
 * Matches visible ASCII (2025-11-25, session management), and the spaces that some servers use in addition. Some
 * servers put a signed state into the id.
 */
export const SESSION_ID = /^[\x20-\x7e]{1,4096}$/
const REVISION = /^\d{4}-\d\d-\d\d$/

/** The backend's answer when a session was opened. */
export interface Opened {
  /** Absent if the backend keeps no sessions. Some servers change the id with each answer. */
  sessionId: string | undefined
  readonly revision: string
  readonly capabilities: Readonly<Record<string, unknown>>
}

/**
 * Describes a session with the backend at this URL, as text for other replicas. It contains a digest of the URL,
 * because the URL itself may contain a key.
 */
export const sharedSessionText = (opened: Opened, url: string): string =>
  JSON.stringify({ ...opened, at: digestUrl(url) })

/**
 * Parses a session that another replica has described. Returns undefined if the backend now has another URL, which does
 * not know that session, or if a different version of the gateway wrote the text.
 */
export function parseSharedSession(text: string, url: string): Opened | undefined {
  try {
    const kept: unknown = JSON.parse(text)
    if (!isObject(kept) || kept['at'] !== digestUrl(url)) return undefined
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

const digestUrl = (url: string): string => hash('sha256', url, 'base64url')
