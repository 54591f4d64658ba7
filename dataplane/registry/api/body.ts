import { isUtf8 } from 'node:buffer'
import type { Context } from 'hono'
import type { Static, TSchema } from 'typebox'
import { compile } from '../../config/schema-violations.ts'
import { readBody } from '../../server/body.ts'
import { type ErrorDetail, PublicError } from '../../server/errors.ts'
import { nestsDeeperThan } from '../sources/depth.ts'

const DEEPEST = 64
/** Findings that one answer tells of. */
const MOST_DETAILS = 100

export interface Body<T> {
  readonly value: T
  /** As it came. */
  readonly text: string
}

/** What is wrong with a body that its schema can't say. */
export type CheckBody<T> = (value: T) => readonly ErrorDetail[]

/**
 * Makes the function that reads a JSON body of this schema. It throws a PublicError with all findings at once.
 * Only `application/json` is taken: a page of somebody else can't send that without being asked first.
 */
export function bodyReader<S extends TSchema>(schema: S, largest: () => number, check?: CheckBody<Static<S>>) {
  const violations = compile(schema)

  return async function readJson(c: Context): Promise<Body<Static<S>>> {
    const type = c.req.header('content-type') ?? ''
    if (!/^application\/json *(;|$)/i.test(type)) throw new PublicError('unsupported_media_type')
    const bytes = await readBody(c, largest())
    if (!isUtf8(bytes)) throw new PublicError('parse_error', { message: 'The body is not UTF-8.' })
    const text = bytes.toString()
    const value = parse(text)
    if (nestsDeeperThan(value, DEEPEST))
      throw invalid([{ pointer: '', message: `must not nest deeper than ${DEEPEST} levels` }])

    const violated = violations(value)
    const findings = violated.length > 0 ? violated : (check?.(value as Static<S>) ?? [])
    if (findings.length > 0) throw invalid(findings)
    return { value: value as Static<S>, text }
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new PublicError('parse_error', { cause: error })
  }
}

/** A 400 that lists what is wrong with the request. */
export function invalid(findings: readonly ErrorDetail[]): PublicError {
  const [first] = findings as readonly [ErrorDetail, ...ErrorDetail[]]
  return new PublicError('invalid_request', {
    message: `${first.pointer || 'the body'} ${first.message}`,
    details: findings.slice(0, MOST_DETAILS).map(({ pointer, message }) => ({ pointer, message })),
  })
}
