import type { ServerResponse } from 'node:http'
import { answer, type RawRequest, type RawServer, startRawServer, tool } from './raw-server.ts'

/** A hand-written server's answer to a request: a JSON body, or undefined if the function writes it itself. */
export type TaskAnswer = (request: RawRequest, res: ServerResponse) => string | undefined

export interface TaskServer extends RawServer {
  /** Answers in place of the usual ones, by method. */
  readonly answers: Map<string, TaskAnswer>
  /** Ids of all tasks, of all clients. */
  readonly tasks: string[]
  /** Number of tasks on a page of the list. */
  pageSize: number
  /** Sends a text on every open stream. */
  say(message: object): void
  listening(): number
}

export const TASKS = { list: {}, cancel: {}, requests: { tools: { call: {} } } }

/** Key of `_meta` that names a task. */
export const RELATED = 'io.modelcontextprotocol/related-task'
export const relateToTask = (taskId: string) => ({ [RELATED]: { taskId } })

/**
 * A server of 2025-11-25 that runs every call as a task. It lists all tasks to every client, as a server does that sees
 * one shared credential for all of them.
 */
export async function startTaskServer(tools: readonly string[] = ['job']): Promise<TaskServer> {
  const answers = new Map<string, TaskAnswer>()
  const tasks: string[] = []
  const streams = new Set<ServerResponse>()
  const state = { pageSize: 100 }
  const buildStatus = (taskId: string) => ({
    taskId,
    status: 'working',
    ttl: 60_000,
    createdAt: '2026-01-01T00:00:00Z',
  })

  const usual: Record<string, TaskAnswer> = {
    initialize: (request, res) => {
      res.setHeader('mcp-session-id', `tasks-${Math.random()}`)
      return answer(
        request,
        JSON.stringify({
          protocolVersion: '2025-11-25',
          capabilities: { tools: {}, tasks: TASKS },
          serverInfo: { name: 'tasks', version: '1' },
        }),
      )
    },
    'tools/call': (request) => {
      if (request.message.params?.['task'] === undefined) return answer(request, '{"content":[]}')
      const taskId = `task-${tasks.length + 1}`
      tasks.push(taskId)
      return answer(request, JSON.stringify({ task: buildStatus(taskId), more: 1 }))
    },
    'tasks/get': (request) => answer(request, JSON.stringify(buildStatus(String(request.message.params?.['taskId'])))),
    'tasks/cancel': (request) =>
      answer(request, JSON.stringify(buildStatus(String(request.message.params?.['taskId'])))),
    'tasks/result': (request) =>
      answer(request, JSON.stringify({ content: [], _meta: relateToTask(String(request.message.params?.['taskId'])) })),
    'tasks/list': (request) => {
      const from = Number(request.message.params?.['cursor'] ?? 0)
      const to = from + state.pageSize
      const page = { tasks: tasks.slice(from, to).map(buildStatus) }
      return answer(request, JSON.stringify(to < tasks.length ? { ...page, nextCursor: String(to) } : page))
    },
  }

  const server = await startRawServer({
    era: 'legacy',
    tools: tools.map((name) => tool(name, '"execution":{"taskSupport":"optional","x":1}')),
    call: () => undefined,
    before(request, res) {
      if (request.method === 'GET') {
        streams.add(res.writeHead(200, { 'content-type': 'text/event-stream' }))
        res.flushHeaders()
        res.on('close', () => streams.delete(res))
        return true
      }
      const method = request.message.method ?? ''
      const respond = answers.get(method) ?? usual[method]
      if (request.method !== 'POST' || respond === undefined) return false
      const text = respond(request, res)
      if (text !== undefined) res.writeHead(200, { 'content-type': 'application/json' }).end(text)
      return true
    },
  })
  return Object.assign(state, server, {
    answers,
    tasks,
    say: (message: object) => {
      for (const stream of streams) stream.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
    },
    listening: () => streams.size,
  })
}
