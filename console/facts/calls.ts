import { isObject } from '../../crds/settings/json.ts'

/** A call, as recorded in the audit log. */
export type AuditedCall = NonNullable<ReturnType<typeof parseCall>>

const MOST = 50

const text = (value: unknown): string => (typeof value === 'string' ? value.slice(0, 300) : '')

/** Returns the latest denied calls in audit lines, the newest first. Lines that can't be read are skipped. */
export function listDenied(lines: readonly string[]): readonly AuditedCall[] {
  const found: AuditedCall[] = []
  for (const line of lines.toReversed()) {
    const call = found.length < MOST ? parseCall(line) : undefined
    if (call?.outcome === 'denied') found.push(call)
  }
  return found
}

/** Returns the call of an audit line; undefined if it has another form. */
export function parseCall(line: string) {
  let event: unknown
  try {
    event = JSON.parse(line)
  } catch {
    return undefined
  }
  if (!isObject(event) || event['level'] !== 'audit') return undefined
  const [subject, client, target] = ['subject', 'client', 'target'].map((name) =>
    isObject(event[name]) ? event[name] : {},
  )
  const durationMs = event['duration_ms']
  return {
    time: text(event['time']),
    type: text(event['type']),
    who: text(subject?.['name']) || text(subject?.['id']) || 'anonymous',
    /** The `sub` of the token; empty for an anonymous caller. */
    sub: text(subject?.['id']),
    client: text(client?.['name']) || text(client?.['id']),
    tool: text(target?.['tool']) || text(target?.['name']),
    error: text(event['error']),
    requestId: text(event['request_id']),
    /** `success`, `denied` or another word of the log. */
    outcome: text(event['outcome']),
    /** Milliseconds; null if the line has none. */
    durationMs: typeof durationMs === 'number' ? durationMs : null,
  }
}
