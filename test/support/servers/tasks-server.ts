import { type RawRequest, type RawServer, startRawServer, tool } from './raw-server.ts'

/** The tasks extension (SEP-2663). */
const EXTENSION = 'io.modelcontextprotocol/tasks'
const NEEDED = { requiredCapabilities: { extensions: { [EXTENSION]: {} } } }
const CREATED = '2026-01-01T00:00:00Z'

interface Task {
  readonly taskId: string
  status: 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'
  result?: object
  error?: object
  inputRequests?: Record<string, object>
  /** Builds the result of a task after all of its questions were answered. */
  finish?: (answers: Record<string, unknown>) => object
  readonly answers: Record<string, unknown>
}

const text = (value: string) => ({ resultType: 'complete', content: [{ type: 'text', text: value }] })
const ask = (message: string, name: string) => ({
  method: 'elicitation/create',
  params: {
    mode: 'form',
    message,
    requestedSchema: { type: 'object', properties: { [name]: { type: 'string' } }, required: [name] },
  },
})

/** Starts a server of the stateless era with the tools that the conformance suite calls in its tasks scenarios. */
export function startTasksServer(): Promise<RawServer> {
  const tasks = new Map<string, Task>()
  const begin = (more: Partial<Task>): Task => {
    const task: Task = { taskId: `task-${tasks.size + 1}`, status: 'working', answers: {}, ...more }
    tasks.set(task.taskId, task)
    return task
  }
  const toTask = ({ taskId, status }: Task) => ({
    ...{ taskId, status, createdAt: CREATED, lastUpdatedAt: CREATED },
    ...{ ttlMs: 60_000, pollIntervalMs: 100 },
  })
  const buildCreated = (task: Task) => ({ resultType: 'task', ...toTask(task) })
  const buildDetailed = (task: Task) => ({
    ...{ resultType: 'complete', ...toTask(task) },
    ...(task.status === 'completed' && { result: task.result }),
    ...(task.status === 'failed' && { error: task.error }),
    ...(task.status === 'input_required' && { inputRequests: task.inputRequests }),
  })

  /** Returns the task of a tool that runs as a task, or undefined for another tool. */
  function buildTask(name: unknown, args: Record<string, unknown>): Task | undefined {
    switch (name) {
      case 'slow_compute': {
        const task = begin({})
        setTimeout(
          () => task.status === 'working' && Object.assign(task, { status: 'completed', result: text('computed') }),
          Number(args['seconds'] ?? 1) * 1000,
        ).unref()
        return task
      }
      case 'failing_job':
        return begin({ status: 'completed', result: { ...text('it failed'), isError: true } })
      case 'protocol_error_job':
        return begin({ status: 'failed', error: { code: -32603, message: 'it broke' } })
      case 'confirm_delete':
        return begin({
          status: 'input_required',
          inputRequests: { confirm: ask('Delete it?', 'confirm') },
          finish: () => text('deleted'),
        })
      case 'multi_input':
        return begin({
          status: 'input_required',
          inputRequests: { one: ask('One?', 'one'), two: ask('Two?', 'two') },
          finish: () => text('both'),
        })
      default:
        return undefined
    }
  }

  function update(task: Task, responses: Record<string, unknown>): void {
    for (const [key, value] of Object.entries(responses)) {
      if (task.inputRequests?.[key] === undefined) continue
      delete task.inputRequests[key]
      task.answers[key] = value
    }
    if (task.status === 'input_required' && Object.keys(task.inputRequests ?? {}).length === 0)
      Object.assign(task, { status: 'completed', result: task.finish?.(task.answers) })
  }

  function answerCall({ params = {} }: RawRequest['message'], hasTasks: boolean): object | 'refused' {
    const name = params['name']
    const args = (params['arguments'] ?? {}) as Record<string, unknown>
    if (name === 'greet') return text(`Hello, ${args['name']}!`)
    if (name === 'test_tool_with_task') {
      const responses = params['inputResponses'] as Record<string, { content?: Record<string, unknown> }> | undefined
      if (responses?.['user_name'] === undefined)
        return {
          resultType: 'input_required',
          inputRequests: { user_name: ask('Who?', 'user_name') },
          requestState: 's',
        }
      const who = JSON.stringify(responses['user_name'].content ?? {})
      return hasTasks ? buildCreated(begin({ status: 'completed', result: text(`for ${who}`) })) : 'refused'
    }
    if (!hasTasks && name === 'failing_job') return 'refused'
    if (!hasTasks) return text('at once')
    const task = buildTask(name, args)
    return task === undefined ? { ...text('no such tool'), isError: true } : buildCreated(task)
  }

  const NAMES = ['greet', 'slow_compute', 'failing_job', 'protocol_error_job', 'confirm_delete', 'multi_input']
  return startRawServer({
    era: 'modern',
    tools: [...NAMES, 'test_tool_with_task'].map((name) => tool(name)),
    call: () => undefined,
    before({ message, headers }, res) {
      const { method = '', params = {} } = message
      const sendAnswer = (body: object, status = 200) => {
        const whole = JSON.stringify({ jsonrpc: '2.0', id: message.id, ...body })
        res.writeHead(status, { 'content-type': 'application/json' }).end(whole)
        return true
      }
      const refuse = (code: number, message: string, status = 400, data?: object) =>
        sendAnswer({ error: { code, message, ...(data && { data }) } }, status)
      if (method === 'server/discover')
        return sendAnswer({
          result: {
            ...{ resultType: 'complete', supportedVersions: ['2026-07-28'], ttlMs: 0, cacheScope: 'private' },
            capabilities: { tools: {}, extensions: { [EXTENSION]: {} } },
            serverInfo: { name: 'tasks', version: '1' },
          },
        })
      if (method === 'tasks/result' || method === 'tasks/list') return refuse(-32601, 'Method not found', 404)
      if (method !== 'tools/call' && !/^tasks\/(get|update|cancel)$/.test(method)) return false
      const meta = (params['_meta'] ?? {}) as Record<string, { extensions?: Record<string, object> } | undefined>
      const hasTasks = meta['io.modelcontextprotocol/clientCapabilities']?.extensions?.[EXTENSION] !== undefined
      const named = String(params['name'] ?? params['taskId'])
      if (headers['mcp-method'] !== method || headers['mcp-name'] !== named) return refuse(-32020, 'Header mismatch')
      const refuseTasks = () => refuse(-32021, 'Missing required client capability', 400, NEEDED)
      if (method === 'tools/call') {
        const result = answerCall(message, hasTasks)
        return result === 'refused' ? refuseTasks() : sendAnswer({ result })
      }
      if (!hasTasks) return refuseTasks()
      const task = tasks.get(named)
      if (task === undefined) return refuse(-32602, 'Unknown task', 400)
      if (method === 'tasks/get') return sendAnswer({ result: buildDetailed(task) })
      if (method === 'tasks/update') update(task, (params['inputResponses'] ?? {}) as Record<string, unknown>)
      else if (task.status === 'working' || task.status === 'input_required') task.status = 'cancelled'
      return sendAnswer({ result: { resultType: 'complete' } })
    },
  })
}
