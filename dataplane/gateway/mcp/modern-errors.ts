import { isObject } from '../../../crds/shared/json.ts'
import { parseObject } from './parse.ts'
import { MODERN } from './revisions.ts'

/** Codes that only a peer of the modern era gives (2026-07-28, errors). */
const MODERN_CODES: ReadonlySet<unknown> = new Set([-32020, -32021, -32022])

/** Whether only a peer of the modern era gives this error. */
export const isModernError = ({ code }: Readonly<Record<string, unknown>>): boolean => MODERN_CODES.has(code)

/** The revisions that an error says are supported; undefined where it names none. */
export function supportedIn({ code, data }: Readonly<Record<string, unknown>>): readonly unknown[] | undefined {
  const supported = code === -32022 && isObject(data) ? data['supported'] : undefined
  return Array.isArray(supported) ? supported : undefined
}

/** Whether an answer to `initialize` (JSON text) is a refusal by a server of the modern era. */
export function isModernRefusal(text: string): boolean {
  const error = parseObject(text)?.['error']
  return isObject(error) && isModernError(error) && (supportedIn(error)?.includes(MODERN) ?? true)
}
