import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { type ElicitRequest, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { connect, readText } from '../../../support/gateway/clients.ts'
import { type GatewayUnderTest, startGateway } from '../../../support/gateway/gateway.ts'
import { type EverythingServer, startEverything } from '../../../support/servers/everything.ts'

/** Tests tasks of the legacy era (2025-11-25) between the SDK's client and the reference server. */

const TOOL = 'every_simulate-research-query'
const SERVER = '@modelcontextprotocol/server-everything'

let everything: EverythingServer
/** A gateway behind another one, which must accept what it shows. */
let inner: GatewayUnderTest
let gateway: GatewayUnderTest

test.before(async () => {
  everything = await startEverything()
  inner = await startGateway({ role: 'proxy', backends: [{ name: 'own', url: everything.url }] })
  await inner.listed()
  gateway = await startGateway({ backends: [{ name: 'every', url: inner.url }] })
  await gateway.listed()
})

test.after(async () => {
  await gateway.close()
  await inner.close()
  await everything.close()
})

type Elicitation = ElicitRequest['params']

async function connectAsking(url = gateway.url): Promise<{ client: Client; questions: Elicitation[] }> {
  const questions: Elicitation[] = []
  const client = new Client({ name: 'tasks', version: '1' }, { capabilities: { elicitation: {} } })
  client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
    questions.push(params)
    return { action: 'accept', content: { interpretation: 'historical' } }
  })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)))
  await client.listTools()
  return { client, questions }
}

test('a task that asks its user something is followed to its result', async () => {
  const { client, questions } = await connectAsking()
  const { tasks } = client.experimental
  const statuses = new Set<string>()
  let id = ''
  let text = ''
  for await (const message of tasks.callToolStream({ name: TOOL, arguments: { topic: 'x', ambiguous: true } })) {
    if (message.type === 'error') throw message.error
    if (message.type === 'taskCreated') {
      id = message.task.taskId
      const listed = await tasks.listTasks()
      assert.equal(
        listed.tasks.map(({ taskId }) => taskId),
        [id],
      )
    } else if (message.type === 'taskStatus') statuses.add(message.task.status)
    else text = readText(message.result)
  }
  assert.ok(statuses.has('input_required'))
  assert.match(text, /Research Report: x \(historical\)/)
  assert.is(questions.length, 1)
  assert.is(questions[0]?._meta?.['io.modelcontextprotocol/related-task']?.taskId, id)
  assert.is((await tasks.getTask(id)).status, 'completed')
  await client.close()
})

test('a task can be cancelled by its client and by nobody else', async () => {
  const { client } = await connectAsking()
  const { client: other } = await connectAsking()
  const { tasks } = client.experimental
  let taskId = ''
  for await (const message of tasks.callToolStream({ name: TOOL, arguments: { topic: 'y' } })) {
    if (message.type === 'taskCreated') taskId = message.task.taskId
    break
  }
  assert.is.not(taskId, '')
  for (const about of ['getTask', 'cancelTask', 'getTaskResult'] as const)
    await other.experimental.tasks[about](taskId).then(
      () => assert.unreachable(about),
      (error) => assert.is(error.code, -32602),
    )
  assert.equal((await other.experimental.tasks.listTasks()).tasks, [])
  assert.is((await tasks.cancelTask(taskId)).status, 'cancelled')
  assert.is((await tasks.getTask(taskId)).status, 'cancelled')
  await Promise.all([client.close(), other.close()])
})

test('each client of a shared stdio server hears of its own tasks alone', async () => {
  const command = [process.execPath, fileURLToPath(import.meta.resolve(`${SERVER}/dist/index.js`)), 'stdio']
  const shared = await startGateway({ backends: [{ name: 'every', transport: 'stdio', stdio: { command } }] })
  await shared.listed()
  const [{ client: one }, { client: two }] = [await connectAsking(shared.url), await connectAsking(shared.url)]
  const ids: string[] = []
  for (const client of [one, two])
    for await (const message of client.experimental.tasks.callToolStream({ name: TOOL, arguments: { topic: 'w' } })) {
      if (message.type === 'taskCreated') ids.push(message.task.taskId)
      break
    }
  assert.is(new Set(ids).size, 2)
  for (const [index, client] of [one, two].entries()) {
    const listed = (await client.experimental.tasks.listTasks()).tasks.map(({ taskId }) => taskId)
    assert.equal(listed, [ids[index]])
  }
  await Promise.all([one.close(), two.close()])
  await shared.close()
})

test('a modern client gets an error that the tool can run only as a task', async () => {
  const { client } = await connect(gateway.url, 'modern')
  const call = client.callTool({ name: TOOL, arguments: { topic: 'z' } })
  await call.then(
    (result) => {
      assert.is(result.isError, true)
      assert.match(readText(result), /task/)
    },
    (error) => assert.match(error.message, /task/),
  )
  await client.close()
})

test.run()
