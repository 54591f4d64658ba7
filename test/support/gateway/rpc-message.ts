/**
 * MCP messages as tests read them: the fields of all kinds of messages in one type. No field is optional and lists have a
 * first item, so that a test that reads a missing one fails.
 */

import * as assert from 'uvu/assert'

type NonEmpty<T> = readonly [T, ...T[]]

export interface RpcSchema {
  readonly type: string
  readonly maximum: number
  readonly required: readonly string[]
  readonly properties: Readonly<Record<string, RpcSchema>>
}

export interface RpcTool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: RpcSchema
  readonly outputSchema: RpcSchema
  readonly annotations: unknown
  readonly execution: unknown
  readonly _meta: Readonly<Record<string, unknown>>
}

interface Block {
  readonly type: string
  readonly text: string
}

/** Fields of a tool's result besides its text. */
export interface RpcStructured {
  readonly [field: string]: unknown
  /** The results of tool search. */
  readonly tools: NonEmpty<RpcTool>
  readonly retryAfterSeconds: number
}

/** A backend's request to the client. */
export interface RpcRequest {
  readonly method: string
  readonly params: RpcParams
}

interface UrlQuestion {
  readonly mode: string
  readonly url: string
  readonly elicitationId: string
  readonly message: string
}

export interface RpcParams extends UrlQuestion {
  readonly [field: string]: unknown
  readonly _meta: Readonly<Record<string, unknown>>
}

export interface RpcTask {
  readonly taskId: string
  readonly createdAt: string
  readonly status: string
}

export interface RpcResult extends RpcTask {
  readonly [field: string]: unknown
  readonly resultType: string
  readonly content: NonEmpty<Block>
  readonly structuredContent: RpcStructured
  readonly isError?: boolean
  readonly tools: NonEmpty<RpcTool>
  readonly prompts: NonEmpty<{ readonly name: string }>
  readonly resources: NonEmpty<{ readonly uri: string; readonly name: string }>
  readonly messages: NonEmpty<{ readonly role: string; readonly content: Block }>
  readonly contents: NonEmpty<{ readonly uri: string; readonly text: string }>
  readonly inputRequests: Readonly<Record<string, RpcRequest>>
  readonly requestState: string
  readonly protocolVersion: string
  readonly capabilities: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly instructions: string
  readonly task: RpcTask
  readonly tasks: NonEmpty<RpcTask>
  readonly nextCursor?: string
}

export interface RpcError {
  readonly code: number
  readonly message: string
  readonly data: {
    readonly [field: string]: unknown
    readonly retryAfterSeconds: number
    /** Pages that the user has to open. */
    readonly elicitations: NonEmpty<UrlQuestion>
  }
}

export interface RpcMessage extends RpcRequest {
  readonly jsonrpc: string
  readonly id: string | number
  readonly result: RpcResult
  readonly error: RpcError
}

/** Returns the only question of a result that asks the client, with its key. */
export function readQuestion({ inputRequests }: RpcResult): readonly [key: string, question: RpcRequest] {
  const [question, ...others] = Object.entries(inputRequests)
  assert.ok(question)
  assert.equal(others, [])
  return question
}
