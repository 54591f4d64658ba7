import { isUtf8 } from 'node:buffer'
import type { Context } from 'hono'
import type { Static, TSchema } from 'typebox'
import { at, countValues } from '../../../../crds/settings/json.ts'
import { compile } from '../../../config/schema-violations.ts'
import { readBody, refuseCompressed } from '../../../server/body.ts'
import { type ErrorDetail, PublicError } from '../../../server/errors.ts'
import { nestsDeeperThan } from '../../catalog/json.ts'
import { BODY_COPIES } from './caller-memory.ts'
import type { Api, RegistryEnv } from './operation.ts'

const DEEPEST = 64
const MOST_DETAILS = 100
/** For a body with more values only the first finding is listed, since each value may have some. */
const MOST_VALUES = 10_000

const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/

/**
 * Creates the function that reads a JSON body of this schema. Throws a PublicError with all findings. It accepts only
 * `application/json`, which a foreign page can't send without a CORS preflight.
 */
export function bodyReader<S extends TSchema>(
  schema: S,
  { limits }: Pick<Api, 'limits'>,
  check?: (value: Static<S>) => readonly ErrorDetail[],
) {
  const violations = compile(schema)
  const findFirst = compile(schema, { all: false })

  return async function readJson(c: Context<RegistryEnv>) {
    const type = c.req.header('content-type') ?? ''
    if (!/^application\/json *(;|$)/i.test(type)) throw new PublicError('unsupported_media_type')
    refuseCompressed(c.req.header('content-encoding'))
    const { held } = c.var
    const bytes = await readBody(c, limits().bodyBytes, (size) => held.demand(size))
    held.demand(BODY_COPIES * bytes.length)
    if (!isUtf8(bytes)) throw new PublicError('parse_error', { message: 'The body is not UTF-8.' })
    const text = bytes.toString()
    const value = parse(text)
    c.set('sent', { text, value })
    if (nestsDeeperThan(value, DEEPEST))
      throw invalid([{ pointer: '', message: `must not nest deeper than ${DEEPEST} levels` }])

    checkTexts(text, value)
    const violated = countValues(value, MOST_VALUES) > MOST_VALUES ? findFirst(value) : violations(value)
    const findings = violated.length > 0 ? violated : (check?.(value as Static<S>) ?? [])
    if (findings.length > 0) throw invalid(findings)
    return { value: value as Static<S>, text }
  }
}

/** Refuses a lone surrogate. Since the bytes are UTF-8, only an escape can write one. */
function checkTexts(text: string, value: unknown): void {
  const pointer = SURROGATE_ESCAPE.test(text) ? findLoneSurrogate(value) : undefined
  if (pointer !== undefined) throw invalid([{ pointer, message: 'must not hold half of a surrogate pair' }])
}

/** Returns the pointer (RFC 6901) of the first text or member name with a lone surrogate. */
function findLoneSurrogate(value: unknown, pointer = ''): string | undefined {
  if (typeof value === 'string') return value.isWellFormed() ? undefined : pointer
  if (typeof value !== 'object' || value === null) return undefined
  for (const [key, member] of Object.entries(value)) {
    if (!key.isWellFormed()) return pointer
    const found = findLoneSurrogate(member, at(pointer, key))
    if (found !== undefined) return found
  }
  return undefined
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new PublicError('parse_error', { cause: error })
  }
}

export function invalid(findings: readonly ErrorDetail[]): PublicError {
  const [first] = findings as readonly [ErrorDetail, ...ErrorDetail[]]
  const more = findings.length > MOST_DETAILS ? ` (the first of ${findings.length} findings)` : ''
  return new PublicError('invalid_request', {
    message: `${first.pointer || 'the body'} ${first.message}${more}`,
    details: findings.slice(0, MOST_DETAILS).map(({ pointer, message }) => ({ pointer, message })),
  })
}
