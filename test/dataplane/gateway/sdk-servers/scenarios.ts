import { eventually } from '../../../support/eventually.ts'
import { readText } from '../../../support/gateway/clients.ts'
import type { SdkClient } from './sdk-client.ts'

/** A client that calls tools by the names in its list. */
export interface Caller extends SdkClient {
  /** The prefix of names of tools and prompts. */
  readonly prefix: string
}

type Scenario = (caller: Caller) => Promise<unknown>

const call = async ({ client, prefix }: Caller, name: string, args: Record<string, unknown> = {}) => {
  const result = await client.callTool({ name: prefix + name, arguments: args })
  return result.isError === true ? { isError: true, text: readText(result) } : readText(result)
}

const createAsking =
  (name: string): Scenario =>
  async (caller) => {
    const result = await call(caller, name)
    return [result, ...caller.received.filter((line) => line.startsWith('elicit') || line === 'sample').toSorted()]
  }

const bare = ({ prefix }: Caller, items: readonly { readonly name: string }[]) =>
  items.map(({ name }) => (name.startsWith(prefix) ? name.slice(prefix.length) : name)).toSorted()

const UPDATED = 'test://fixed'

/** Actions of a client with a server. Their outcomes must be the same directly and through a gateway. */
export const scenarios: Readonly<Record<string, Scenario>> = {
  'elicitation by a request': createAsking('send_form'),
  'elicitation by elicitInput': createAsking('elicit_form'),
  'elicitation of a URL': createAsking('elicit_url'),
  sampling: createAsking('sample'),
  roots: createAsking('roots'),
  'roots by a request': createAsking('send_roots'),
  'inputs as a result': createAsking('inputs'),
  'a URL as a result': createAsking('input_url'),
  progress: async ({ client, prefix }) => {
    const seen: unknown[] = []
    const params = { name: `${prefix}steps`, arguments: {} }
    // The second parameter differs between SDK 1 and SDK 2; the third is that of SDK 1.
    const options = { onprogress: (progress: unknown) => void seen.push(progress) }
    const calls = client.callTool.bind(client) as (...args: unknown[]) => Promise<unknown>
    const result = await calls(params, ...('setLoggingLevel' in client && isV1(client) ? [undefined] : []), options)
    return [readText(result), seen]
  },
  cancellation: async (caller) => {
    const { client, prefix } = caller
    const abort = new AbortController()
    const calls = client.callTool.bind(client) as (...args: unknown[]) => Promise<unknown>
    const params = { name: `${prefix}slow`, arguments: {} }
    const before = String(await call(caller, 'count'))
      .split(' ')
      .map(Number)
    const options = { signal: abort.signal }
    const ended = calls(params, ...(isV1(client) ? [undefined] : []), options).then(
      () => 'answered',
      () => 'cancelled',
    )
    const hasProgress = (at: number) => async () =>
      Number(String(await call(caller, 'count')).split(' ')[at]) === Number(before[at]) + 1
    await eventually('the call has begun', hasProgress(0))
    abort.abort()
    await eventually('the server knows', hasProgress(1))
    return ended
  },
  logging: async (caller) => {
    const { client, kind, received, prefix } = caller
    const listLogged = () => received.filter((line) => line.startsWith('log '))
    if (kind === 'v2-stateless') {
      const _meta = { 'io.modelcontextprotocol/logLevel': 'info' }
      await client.callTool({ name: `${prefix}log`, arguments: {}, _meta })
    } else {
      await client.setLoggingLevel('info')
      await call(caller, 'log')
    }
    await eventually('both messages have arrived', () => listLogged().length >= 2)
    return listLogged().map((line) => line.replace(prefix, ''))
  },
  'changes of lists': async (caller) => {
    const { client, kind, received } = caller
    const lists = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }
    const subscription = kind === 'v2-stateless' ? await client.listen(lists) : undefined
    await client.listTools()
    await call(caller, 'grow')
    const changes = () => new Set(received.filter((line) => line.endsWith(' changed')))
    await eventually('all lists have changed', () => changes().size === 3)
    const growLists = async () => {
      const { tools } = await client.listTools()
      const { prompts } = await client.listPrompts()
      const { resources } = await client.listResources()
      return [bare(caller, tools), bare(caller, prompts), resources.map(({ uri }) => uri).toSorted()]
    }
    const lists3 = await growLists()
    await subscription?.close()
    return [lists3, await call(caller, 'grown')]
  },
  'updates of a resource': async (caller) => {
    const { client, kind, received } = caller
    const subscription = kind === 'v2-stateless' ? await client.listen({ resourceSubscriptions: [UPDATED] }) : undefined
    if (kind !== 'v2-stateless') await client.subscribeResource({ uri: UPDATED })
    await call(caller, 'touch')
    await eventually('the message to arrive', () => received.includes(UPDATED))
    if (kind !== 'v2-stateless') await client.unsubscribeResource({ uri: UPDATED })
    await subscription?.close()
    return received.filter((line) => line === UPDATED)
  },
  'a stream that breaks off': (caller) => call(caller, 'break'),
  completion: async ({ client, prefix }) => [
    await client.complete({
      ref: { type: 'ref/prompt', name: `${prefix}visit` },
      argument: { name: 'city', value: 'Be' },
    }),
    await client.complete({
      ref: { type: 'ref/resource', uri: 'test://items/{id}' },
      argument: { name: 'id', value: 't' },
    }),
  ],
  prompts: async (caller) => [
    bare(caller, (await caller.client.listPrompts()).prompts),
    await caller.client.getPrompt({ name: `${caller.prefix}visit`, arguments: { city: 'Bern' } }),
  ],
  resources: async ({ client }) => [
    (await client.listResources()).resources.map(({ uri, mimeType }) => [uri, mimeType]),
    (await client.listResourceTemplates()).resourceTemplates.map(({ uriTemplate }) => uriTemplate),
    (await client.readResource({ uri: UPDATED })).contents,
    (await client.readResource({ uri: 'test://items/seven' })).contents,
  ],
  'structured output': async ({ client, prefix }) => {
    await client.listTools()
    const result = await client.callTool({ name: `${prefix}sum`, arguments: { parts: [1, 2, 3] } })
    return [result.content, result.structuredContent]
  },
  'a large result': async (caller) => (await call(caller, 'large')).toString().length,
  'a failure of a tool': (caller) => call(caller, 'fail'),
  'a tool that throws': (caller) => call(caller, 'throw'),
  'arguments that are wrong': (caller) => call(caller, 'sum', { parts: 'none' }),
  'an error of a resource': ({ client }) => client.readResource({ uri: 'test://broken' }),
  'an unknown resource': ({ client }) => client.readResource({ uri: 'test://nothing' }),
  'a ping': async ({ client, kind }) => (kind === 'v2-stateless' ? 'has none' : client.ping()),
}

/** Only SDK 1 takes a schema of the result. */
const isV1 = (client: object): boolean => !('listen' in client)
