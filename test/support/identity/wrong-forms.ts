import * as assert from 'uvu/assert'

/** The media type of forms. */
export const FORM = 'application/x-www-form-urlencoded'

/** Values as they are in a form, encoded or not. */
export const VALUES: Readonly<Record<string, string>> = {
  nothing: '',
  'a NUL, encoded': '%00',
  'a NUL as it is': '\0',
  'a NUL in the middle': 'a%00b',
  'a lone surrogate': '%ED%A0%80',
  'bytes that are no UTF-8': '%FF%FE%C0%80',
  'half an escape': '%E0%A4%A',
  'a percent sign': '%',
  'lines of a header': 'x%0D%0ASet-Cookie:%20a=b',
  'the name of a prototype': '__proto__',
  'a method of all objects': 'toString',
  'JSON, an object': '%7B%22a%22:%5B1%5D%7D',
  'a number': '1e999',
  'a JWT without a signature': 'eyJhbGciOiJub25lIn0.eyJzdWIiOnt9fQ.',
  'a JWT whose parts are no objects': 'W10.bnVsbA.AAAA',
  'a path': '../../../etc/passwd',
  'dots as between the parts of a token': '....',
  'what an array is called': '[object Object]',
  'right to left': '%E2%80%AE%F0%9F%98%80',
  'twenty thousand letters': 'x'.repeat(20_000),
  'twenty thousand bytes that are no UTF-8': '%FF'.repeat(6_000),
}

/** Bodies that are no valid form, whatever the fields. */
const BODIES: Readonly<Record<string, string>> = {
  nothing: '',
  'only separators': '&'.repeat(10_000),
  'names without values': '=&=&='.repeat(1_000),
  'a NUL': '\0=\0',
  'ten thousand fields': Array.from({ length: 10_000 }, (_, index) => index.toString(36)).join('=&'),
  'a field ten thousand times': 'token=x&'.repeat(8_000),
  JSON: '{"token":"x","grant_type":"refresh_token","client_id":["x"]}',
  'fields in brackets': 'token[]=x&token[a]=y&grant_type[]=refresh_token&client_id[__proto__]=z',
}

/** A correct form for one test. */
export interface Target {
  readonly url: string
  readonly fields: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** Fields for which some wrong values are valid with another meaning, such as no value where none is allowed. */
  readonly free?: readonly string[]
  /** Fields that may be absent or empty, with the same meaning. */
  readonly optional?: readonly string[]
}

interface Attempt {
  readonly what: string
  readonly body: string
  readonly type?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
}

/** Encodes fields as a form, some of them with values that are already encoded. */
export const encodeForm = (
  fields: Readonly<Record<string, string>>,
  raw: Readonly<Record<string, string>> = {},
): string =>
  Object.keys({ ...fields, ...raw })
    .map((name) => `${name}=${raw[name] ?? encodeURIComponent(fields[name] as string)}`)
    .join('&')

function attemptsAt({ fields, free = [], optional = [] }: Target): Attempt[] {
  const good = encodeForm(fields)
  const attempts: Attempt[] = Object.entries(BODIES).map(([what, body]) => ({ what, body }))
  for (const name of Object.keys(fields)) {
    attempts.push({ what: `${name} twice`, body: `${good}&${name}=x` })
    attempts.push({ what: `${name} twice, alike`, body: `${good}&${encodeForm({ [name]: fields[name] as string })}` })
    if (free.includes(name)) continue
    const mayBeAbsent = optional.includes(name)
    for (const [what, value] of Object.entries(VALUES))
      if (value !== '' || !mayBeAbsent)
        attempts.push({ what: `${name} is ${what}`, body: encodeForm(fields, { [name]: value }) })
    if (mayBeAbsent) continue
    const { [name]: _, ...others } = fields
    attempts.push({ what: `${name} is absent`, body: encodeForm(others) })
  }
  for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x', 'x', '; charset=utf-8'])
    attempts.push({ what: `as ${type}`, body: good, type })
  attempts.push({ what: 'in UTF-16', body: Buffer.from(good, 'utf16le').toString('latin1') })
  attempts.push({ what: 'more than it may be', body: `${good}&x=${'y'.repeat(70_000)}` })
  return attempts
}

/** Sends all forms, some at a time, and returns those that `isRefused` does not accept as refused. */
export async function notRefused(
  target: Target,
  isRefused: (response: Response, text: string) => boolean,
): Promise<readonly string[]> {
  const wrong: string[] = []
  const waiting = attemptsAt(target)
  assert.ok(waiting.length > 30)
  const runWorker = async () => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const headers = { accept: 'text/html', 'content-type': next.type ?? FORM, ...target.headers }
      const request = { method: 'POST', redirect: 'manual', headers, body: Buffer.from(next.body, 'latin1') } as const
      const response = await fetch(target.url, request)
      const text = await response.text()
      if (!isRefused(response, text)) wrong.push(`${next.what}: ${response.status}`)
    }
  }
  await Promise.all(Array.from({ length: 4 }, runWorker))
  return wrong
}

const ERRORS = new Set([
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'invalid_target',
  'invalid_scope',
  'unsupported_grant_type',
])
/** Tells whether an answer is an error of RFC 6749 section 5.2. */
export function isOAuthError({ status, headers }: Response, text: string): boolean {
  const { error, error_description: description } = JSON.parse(text) as { error: string; error_description: string }
  const isFramed = headers.get('content-type') === 'application/json' && headers.get('cache-control') === 'no-store'
  return [400, 401, 413].includes(status) && isFramed && ERRORS.has(error) && description.length > 10
}
