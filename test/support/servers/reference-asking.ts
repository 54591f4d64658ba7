import {
  acceptedContent,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  inputRequired,
  inputResponse,
  type McpServer,
  type RequestStateCodec,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { z } from 'zod'
import { text } from './reference-content.ts'

const question = (message: string, property: string, type: 'string' | 'boolean' = 'string') =>
  inputRequired.elicit({
    message,
    requestedSchema: {
      type: 'object',
      properties: { [property]: { type } as { type: 'string' } },
      required: [property],
    },
  })

const sampling = (prompt: string, maxTokens: number) =>
  inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: prompt } }], maxTokens })

/** Returns the answer's text; a failure becomes the tool's answer. */
async function answerOrExplain(what: string, asking: () => Promise<string>) {
  try {
    return text(await asking())
  } catch (error) {
    return text(`${what} not supported or error: ${(error as Error).message}`)
  }
}

/** Adds the reference's tools and prompt that ask the client something. */
export function registerAsking(server: McpServer, state: RequestStateCodec<string>): void {
  registerSimple(server)
  registerModern(server, state)
}

/** Asks by a request in the middle of a call, as the SDK's own server does; only the legacy era has such requests. */
function registerSimple(server: McpServer): void {
  server.registerTool(
    'test_sampling',
    { description: 'Asks for a completion', inputSchema: z.object({ prompt: z.string() }) },
    async ({ prompt }, { mcpReq }) => {
      const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: prompt } }]
      return answerOrExplain('Sampling', async () => {
        const result = await mcpReq.send({ method: 'sampling/createMessage', params: { messages, maxTokens: 100 } })
        return `LLM response: ${JSON.stringify(result.content)}`
      })
    },
  )
  const ask = (mcpReq: ServerContext['mcpReq'], message: string, properties: object, required: string[] = []) =>
    answerOrExplain('Elicitation', async () => {
      const requestedSchema = { type: 'object' as const, properties: properties as never, required }
      const { action, content } = await mcpReq.send({
        method: 'elicitation/create',
        params: { message, requestedSchema },
      })
      return `Elicitation completed: action=${action}, content=${JSON.stringify(content)}`
    })
  const username = { type: 'string', description: "User's response" }
  const email = { type: 'string', description: "User's email address" }
  server.registerTool(
    'test_elicitation',
    { description: 'Asks the user', inputSchema: z.object({ message: z.string() }) },
    async ({ message }, { mcpReq }) => ask(mcpReq, message, { username, email }, ['username', 'email']),
  )
  server.registerTool('test_elicitation_sep1034_defaults', { description: 'Defaults' }, async ({ mcpReq }) =>
    ask(mcpReq, 'Defaults', {
      name: { type: 'string', default: 'John Doe' },
      age: { type: 'integer', default: 30 },
      score: { type: 'number', default: 95.5 },
      status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
      verified: { type: 'boolean', default: true },
    }),
  )
  const options = ['option1', 'option2', 'option3']
  const withTitles = (titles: string[]) => titles.map((title, index) => ({ const: `value${index + 1}`, title }))
  server.registerTool('test_elicitation_sep1330_enums', { description: 'Enumerations' }, async ({ mcpReq }) =>
    ask(mcpReq, 'Enumerations', {
      untitledSingle: { type: 'string', enum: options },
      titledSingle: { type: 'string', oneOf: withTitles(['First Option', 'Second Option', 'Third Option']) },
      legacyEnum: {
        type: 'string',
        enum: ['opt1', 'opt2', 'opt3'],
        enumNames: ['Option One', 'Option Two', 'Option Three'],
      },
      untitledMulti: { type: 'array', items: { type: 'string', enum: options } },
      titledMulti: { type: 'array', items: { anyOf: withTitles(['First Choice', 'Second Choice', 'Third Choice']) } },
    }),
  )
}

const declaredIn = ({ envelope }: ServerContext['mcpReq']): ClientCapabilities =>
  (envelope as Record<string, ClientCapabilities> | undefined)?.[CLIENT_CAPABILITIES_META_KEY] ?? {}

function registerModern(server: McpServer, state: RequestStateCodec<string>): void {
  const tool = (name: string, answer: (context: ServerContext) => Promise<unknown>) =>
    server.registerTool(name, { description: name }, async (context) => (await answer(context)) as never)

  for (const name of ['test_input_required_result_elicitation', 'test_streaming_elicitation'])
    tool(name, async ({ mcpReq }) => {
      const accepted = acceptedContent<{ name?: unknown }>(mcpReq.inputResponses, 'user_name')
      if (typeof accepted?.name === 'string') return text(`Hello, ${accepted.name}!`)
      return inputRequired({ inputRequests: { user_name: question('What is your name?', 'name') } })
    })
  tool('test_input_required_result_sampling', async ({ mcpReq }) => {
    const view = inputResponse(mcpReq.inputResponses, 'capital_question')
    if (view.kind === 'sampling') return text(JSON.stringify(view.result.content))
    return inputRequired({ inputRequests: { capital_question: sampling('What is the capital of France?', 100) } })
  })
  tool('test_input_required_result_list_roots', async ({ mcpReq }) => {
    const view = inputResponse(mcpReq.inputResponses, 'client_roots')
    if (view.kind === 'roots') return text(`roots: ${view.roots.map(({ uri }) => uri).join(', ')}`)
    return inputRequired({ inputRequests: { client_roots: inputRequired.listRoots() } })
  })
  for (const name of ['test_input_required_result_request_state', 'test_input_required_result_tampered_state'])
    tool(name, async (context) => {
      if (context.mcpReq.requestState<string>() === 'confirmed-by') return text('state-ok')
      return inputRequired({
        inputRequests: { confirm: question('Please confirm', 'ok', 'boolean') },
        requestState: await state.mint('confirmed-by', context),
      })
    })
  tool('test_input_required_result_multiple_inputs', async (context) => {
    const { inputResponses } = context.mcpReq
    const kinds = ['user_name', 'greeting', 'client_roots'].map((key) => inputResponse(inputResponses, key).kind)
    if (!kinds.includes('missing')) return text('all are there')
    return inputRequired({
      inputRequests: {
        user_name: question('What is your name?', 'name'),
        greeting: sampling('Generate a greeting', 50),
        client_roots: inputRequired.listRoots(),
      },
      requestState: await state.mint('many', context),
    })
  })
  tool('test_input_required_result_multi_round', async (context) => {
    const round = context.mcpReq.requestState<string>()
    const { inputResponses } = context.mcpReq
    if (round === 'two' && inputResponse(inputResponses, 'step2').kind !== 'missing') return text('all rounds done')
    if (round === 'one' && inputResponse(inputResponses, 'step1').kind !== 'missing')
      return inputRequired({
        inputRequests: { step2: question('Step 2: What is your favorite color?', 'color') },
        requestState: await state.mint('two', context),
      })
    return inputRequired({
      inputRequests: { step1: question('Step 1: What is your name?', 'name') },
      requestState: await state.mint('one', context),
    })
  })
  tool('test_input_required_result_capabilities', async ({ mcpReq }) => {
    const declared = declaredIn(mcpReq)
    if (mcpReq.inputResponses !== undefined) return text('answered')
    return inputRequired({
      inputRequests: {
        ...(declared.sampling === undefined ? {} : { sample: sampling('Say something', 50) }),
        ...(declared.elicitation === undefined ? {} : { ask: question('Your name?', 'name') }),
      },
    })
  })
  tool('test_missing_capability', async ({ mcpReq }) => {
    if (inputResponse(mcpReq.inputResponses, 'sample').kind === 'sampling') return text('declared')
    return inputRequired({ inputRequests: { sample: sampling('Say something', 50) } })
  })
  server.registerPrompt(
    'test_input_required_result_prompt',
    { description: 'Asks before it answers' },
    async (context) => {
      const accepted = acceptedContent<{ context?: unknown }>(context.mcpReq.inputResponses, 'user_context')
      if (accepted === undefined)
        return inputRequired({
          inputRequests: { user_context: question('What context should the prompt use?', 'context') },
        })
      return { messages: [{ role: 'user', content: { type: 'text', text: `Use ${String(accepted.context)}` } }] }
    },
  )
}
