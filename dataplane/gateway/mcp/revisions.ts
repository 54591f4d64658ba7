import { isObject } from '../../../crds/settings/json.ts'
import { parseObject } from './parse.ts'

/**
 * The protocol revision of the modern era, in which each request describes itself. The legacy era begins with
 * `initialize`.
 */

export const MODERN = '2026-07-28'

/** Legacy revisions served over Streamable HTTP, newest first. 2024-11-05 is HTTP+SSE and is not served. */
export const legacyRevisions: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26']

/** Every revision that is served, newest first: the `supported` versions of -32022 and `server/discover`. */
export const servedRevisions: readonly string[] = [MODERN, ...legacyRevisions]

/** The only revision with batches. It introduced them, and the next one removed them. */
export const WITH_BATCHES = '2025-03-26'

/** Codes that only a peer of the modern era sends (2026-07-28, errors). */
const MODERN_CODES: ReadonlySet<unknown> = new Set([-32020, -32021, -32022])

export const isLegacyRevision = (version: string): boolean => legacyRevisions.includes(version)

/**
 * Tells whether a backend may choose this revision, which is not served to clients. Its messages are those of
 * 2025-03-26.
 */
export const isOldRevision = (version: string): boolean => version === '2024-11-05' || version === '2024-10-07'

/** Tells whether this text names a revision of the modern era, served or not. Revisions are dates. */
export const isModernRevision = (version: string): boolean =>
  version === MODERN || (version > MODERN && version.length === MODERN.length && /^\d{4}-\d{2}-\d{2}$/.test(version))

/** Returns the revision for the answer to `initialize`: the requested one, or the newest legacy one. */
export const negotiateLegacy = (requested: unknown): string =>
  typeof requested === 'string' && isLegacyRevision(requested) ? requested : (legacyRevisions[0] as string)

/** Tells whether only a peer of the modern era sends this error. */
export const isModernError = ({ code }: Readonly<Record<string, unknown>>): boolean => MODERN_CODES.has(code)

/** Returns the revisions that an error names as supported; undefined if it names none. */
export function supportedIn({ code, data }: Readonly<Record<string, unknown>>): readonly unknown[] | undefined {
  const supported = code === -32022 && isObject(data) ? data['supported'] : undefined
  return Array.isArray(supported) ? supported : undefined
}

/** Tells whether an answer to `initialize` (JSON text) is a refusal by a server of the modern era. */
export function isModernRefusal(text: string): boolean {
  const error = parseObject(text)?.['error']
  return isObject(error) && isModernError(error) && (supportedIn(error)?.includes(MODERN) ?? true)
}
