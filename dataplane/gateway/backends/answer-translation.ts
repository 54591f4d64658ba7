import { PublicError } from '../../server/errors.ts'
import { AnswerScanner } from '../mcp/answer-scanner.ts'
import { CAPABILITIES_KEY } from '../mcp/classify.ts'
import { editObject, memberText } from '../mcp/json.ts'
import type { Needed } from './client-ask.ts'
import type { Outgoing } from './outgoing.ts'
import { hasTasks } from './task-ids.ts'

/** What a modern result has and a legacy one lacks. */
const COMPLETE = '"resultType":"complete"'
const READ = `${COMPLETE},"ttlMs":0,"cacheScope":"private"`

/** Reads an answer to this call and makes those changes on the way that large answers need as well. */
export function scannerFor(call: Outgoing): AnswerScanner {
  const { id, rounds, link, message, turn } = call
  if (rounds > 0) return new AnswerScanner({ id: Buffer.from(id), resultMember: '' })
  if (turn.era === 'legacy' || link === undefined) return new AnswerScanner()
  call.edits ??= { id: Buffer.from(id), resultMember: message.method === 'resources/read' ? READ : COMPLETE }
  return new AnswerScanner(call.edits)
}

/**
 * A whole answer as the client's era has it. `missing` is what the backend wanted to ask and could not. Throws a
 * PublicError where the client's era has no form for the answer.
 */
export function translated(call: Outgoing, hasError: boolean, body: Buffer, missing?: Needed): Buffer {
  const { backend, link, message, turn } = call
  const { era, gateway, binding } = turn
  if (link === undefined) {
    if (era === 'legacy') return legacyAnswer(body)
    const hasTask = hasTasks(message.meta?.[CAPABILITIES_KEY])
    return hasTask ? gateway.taskIds.inAnswer(body, backend.name, binding) : body
  }
  if (era === 'legacy') return body
  if (missing !== undefined && (hasError || isToolError(body)))
    throw new PublicError('missing_capability', { data: { requiredCapabilities: missing } })
  return hasError ? modernError(body) : body
}

/** Whether a tool has said that it failed. */
function isToolError(answer: Buffer): boolean {
  const result = memberText(answer.toString('latin1'), 'result')
  return result !== undefined && memberText(result, 'isError') === 'true'
}

const NOT_FOUND = -32002

/** A legacy backend's error as a modern client may have it: a resource that isn't there has another code. */
function modernError(answer: Buffer): Buffer {
  const text = answer.toString('latin1')
  const error = memberText(text, 'error')
  if (error === undefined || memberText(error, 'code') !== String(NOT_FOUND)) return answer
  return Buffer.from(editObject(text, { error: editObject(error, { code: '-32602' }) }), 'latin1')
}

/** Members of a modern result that mean nothing in the legacy era. */
const MODERN_MEMBERS = { resultType: undefined, ttlMs: undefined, cacheScope: undefined }

/**
 * A modern backend's answer as a legacy client may have it. Works on bytes as Latin-1, so that nothing else changes.
 * Throws a PublicError where the backend asks for something instead of answering.
 */
function legacyAnswer(answer: Buffer): Buffer {
  const text = answer.toString('latin1')
  const result = memberText(text, 'result')
  const type = result === undefined ? undefined : memberText(result, 'resultType')
  if (result === undefined || type === undefined) return answer
  if (type !== '"complete"')
    throw new PublicError('backend_failed', {
      message: `The backend asks for something (${type}) that this client can’t be asked.`,
    })
  return Buffer.from(editObject(text, { result: editObject(result, MODERN_MEMBERS) }), 'latin1')
}
