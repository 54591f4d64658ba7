import { type MendRule, mendedNulls } from './null-mender.ts'

/**
 * The rule for members of results that official clients accept if absent but refuse if null. Servers write null for
 * absent values: Go's nil slices, and serializers that write every member.
 */

const OPTIONAL: MendRule = {}
const annotations: MendRule = { members: { audience: OPTIONAL, priority: OPTIONAL, lastModified: OPTIONAL } }
const icons: MendRule = { items: { members: { mimeType: OPTIONAL, sizes: OPTIONAL, theme: OPTIONAL } } }
const contents: MendRule = { members: { mimeType: OPTIONAL, text: OPTIONAL, blob: OPTIONAL, _meta: OPTIONAL } }
/** A content block of any type. A null `text` becomes empty in a text block; other blocks have no `text`. */
const block: MendRule = {
  members: {
    text: { whenNull: '""' },
    annotations,
    _meta: OPTIONAL,
    resource: contents,
    title: OPTIONAL,
    description: OPTIONAL,
    mimeType: OPTIONAL,
    size: OPTIONAL,
    icons,
  },
}
const content: MendRule = { whenNull: '[]', items: block }

/** SDK 2 requires `content` in a tool's result. It is added only beside these members: other results don't have it. */
const NEEDS_CONTENT = { content: { value: '[]', besides: ['structuredContent', 'isError', '_meta', 'resultType'] } }

const messageWith = (members: MendRule['members'], needed?: MendRule['needed']): MendRule => ({
  members: {
    result: {
      whenNull: '{}',
      members: { _meta: OPTIONAL, resultType: OPTIONAL, ...members },
      ...(needed === undefined ? {} : { needed }),
    },
    error: OPTIONAL,
    // Some frameworks write these two members of requests into answers.
    method: { isDropped: true },
    params: { isDropped: true },
  },
  needed: { jsonrpc: { value: '"2.0"' } },
})

const task = { statusMessage: OPTIONAL, pollInterval: OPTIONAL }
const tool = { content, isError: OPTIONAL, task: { members: task } }
/** The modern era allows null as structured content. */
const legacyTool = { ...tool, structuredContent: OPTIONAL }
const prompt = { description: OPTIONAL, messages: { whenNull: '[]', items: { members: { content: block } } } }
const read = {
  contents: { whenNull: '[]', items: contents },
  ttlMs: { whenNull: '0' },
  cacheScope: { whenNull: '"private"' },
}
const completion = {
  completion: { members: { values: { whenNull: '[]', items: OPTIONAL }, total: OPTIONAL, hasMore: OPTIONAL } },
}
const tasks = { nextCursor: OPTIONAL, tasks: { whenNull: '[]', items: { members: task } } }

const TOOL = messageWith(legacyTool, NEEDS_CONTENT)
const MODERN_TOOL = messageWith(tool, NEEDS_CONTENT)
const rules: Readonly<Record<string, MendRule>> = {
  'tools/call': TOOL,
  'tasks/result': messageWith(legacyTool),
  'tasks/get': messageWith(task),
  'tasks/list': messageWith(tasks),
  'prompts/get': messageWith(prompt),
  'resources/read': messageWith(read),
  'completion/complete': messageWith(completion),
}
const OTHER = messageWith({})

/**
 * Returns the rule for the answer to a request with this method. `isModern`: a modern backend answers a modern client,
 * so the answer is not translated.
 */
export const ruleFor = (method: string, isModern: boolean): MendRule =>
  isModern && method === 'tools/call' ? MODERN_TOOL : (rules[method] ?? OTHER)

/** The rule for notifications and requests of a server. */
const UNASKED: MendRule = {
  members: {
    params: {
      members: {
        _meta: OPTIONAL,
        // Progress, log messages and cancellations.
        total: OPTIONAL,
        message: OPTIONAL,
        logger: OPTIONAL,
        reason: OPTIONAL,
        // Elicitation.
        requestedSchema: { members: { required: OPTIONAL } },
        // Sampling.
        messages: { items: { members: { content: { ...block, items: block }, _meta: OPTIONAL } } },
        systemPrompt: OPTIONAL,
        includeContext: OPTIONAL,
        temperature: OPTIONAL,
        stopSequences: OPTIONAL,
        metadata: OPTIONAL,
        modelPreferences: {
          members: {
            hints: { items: { members: { name: OPTIONAL } } },
            costPriority: OPTIONAL,
            speedPriority: OPTIONAL,
            intelligencePriority: OPTIONAL,
          },
        },
        tools: OPTIONAL,
        toolChoice: OPTIONAL,
      },
    },
  },
}

/** Returns a whole notification or request of a server, without null members that may be absent. */
export const mendedUnasked = (message: Buffer, hasNull = message.includes(NULL)): Buffer =>
  hasNull ? mendedNulls(message, UNASKED) : message

const NULL = Buffer.from('null')
const CONTENT = Buffer.from('"content"')

/** Tells whether a whole answer may need the repairs of a rule. `hasNull`: it contains null. */
export const mayNeedMending = (message: Buffer, hasNull: boolean, rule: MendRule): boolean =>
  hasNull || ((rule === TOOL || rule === MODERN_TOOL) && !message.includes(CONTENT))
