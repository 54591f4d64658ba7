import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as StdioV1 } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'

/** SDK 1; SDK 2 with sessions; SDK 2 without (stateless era). */
export const clientKinds = ['v1', 'v2-session', 'v2-stateless'] as const
export type ClientKind = (typeof clientKinds)[number]

/** A server's URL, or its command line. */
export type Target = string | readonly string[]

export interface SdkClient {
  readonly kind: ClientKind
  /** A client of SDK 2; one of SDK 1 has the same methods as far as the scenarios use them. */
  readonly client: Client
  /** The server's notifications and requests, in order. */
  readonly received: string[]
}

const capabilities = {
  elicitation: { form: {}, url: {} },
  sampling: {},
  roots: { listChanged: true },
}
const info = { name: 'sdk-client', version: '1.0.0' }
const sampled = { role: 'assistant' as const, model: 'm', content: { type: 'text' as const, text: 'Paris' } }
const roots = { roots: [{ uri: 'file:///r', name: 'r' }] }

interface ElicitParams {
  readonly mode?: string | undefined
  readonly message: string
  readonly url?: string
}

/** Connects an SDK's client that can answer every kind of request. */
export async function openSdkClient(kind: ClientKind, target: Target): Promise<SdkClient> {
  const received: string[] = []
  const answerElicitation = ({ mode = 'form', message, url }: ElicitParams) => {
    received.push(`elicit ${mode} ${message} ${url ?? ''}`)
    return { action: 'accept' as const, ...(mode === 'url' ? {} : { content: { name: 'Ada' } }) }
  }
  if (kind === 'v1')
    return { kind, received, client: (await openV1(target, received, answerElicitation)) as unknown as Client }
  const mode = kind === 'v2-session' ? 'legacy' : { pin: '2026-07-28' }
  const client = new Client(info, { capabilities, versionNegotiation: { mode } })
  client.setRequestHandler('elicitation/create', async ({ params }) => answerElicitation(params))
  client.setRequestHandler('sampling/createMessage', async () => {
    received.push('sample')
    return sampled
  })
  client.setRequestHandler('roots/list', async () => roots)
  client.setNotificationHandler('notifications/message', ({ params }) => {
    received.push(`log ${params.level} ${params.logger} ${JSON.stringify(params.data)}`)
  })
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => void received.push(params.uri))
  for (const list of ['tools', 'prompts', 'resources'] as const)
    client.setNotificationHandler(`notifications/${list}/list_changed`, () => void received.push(`${list} changed`))
  await client.connect(
    typeof target === 'string'
      ? new StreamableHTTPClientTransport(new URL(target))
      : new StdioClientTransport({ command: target[0] as string, args: target.slice(1), stderr: 'ignore' }),
  )
  return { kind, client, received }
}

async function openV1(
  target: Target,
  received: string[],
  elicited: (params: ElicitParams) => object,
): Promise<ClientV1> {
  const client = new ClientV1(info, { capabilities })
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => elicited(params) as never)
  client.setRequestHandler(CreateMessageRequestSchema, async () => {
    received.push('sample')
    return sampled
  })
  client.setRequestHandler(ListRootsRequestSchema, async () => roots)
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
    received.push(`log ${params.level} ${params.logger} ${JSON.stringify(params.data)}`)
  })
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void received.push(params.uri))
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void received.push('tools changed'))
  client.setNotificationHandler(PromptListChangedNotificationSchema, () => void received.push('prompts changed'))
  client.setNotificationHandler(ResourceListChangedNotificationSchema, () => void received.push('resources changed'))
  await client.connect(
    (typeof target === 'string'
      ? new HttpV1(new URL(target))
      : new StdioV1({ command: target[0] as string, args: target.slice(1), stderr: 'ignore' })) as never,
  )
  return client
}
