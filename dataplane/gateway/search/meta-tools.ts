/** The tools that a gateway with tool search lists in place of all others. */

export const FIND_TOOL = 'find_tool'
export const CALL_TOOL = 'call_tool'

/** Returns the result of `tools/list`, as JSON text; `most` is the most tools that a search returns. */
export const metaTools = (most: number): string => JSON.stringify({ tools: [findTool(most), callTool] })

const findTool = (most: number) => ({
  name: FIND_TOOL,
  description:
    'Finds tools by what they do. All that this server can do is found here: search, and in other words once more, before you say that something can’t be done. Gives the definitions of the tools that fit best; call one of them with call_tool.',
  inputSchema: {
    type: 'object',
    properties: {
      query: { type: 'string', description: 'What the tool is to do, in a few words.' },
      limit: { type: 'integer', minimum: 1, maximum: most, description: 'Most tools that are given.' },
    },
    required: ['query'],
  },
  annotations: { title: 'Find tools', readOnlyHint: true, openWorldHint: false },
})

const callTool = {
  name: CALL_TOOL,
  description: 'Calls a tool that find_tool has found.',
  inputSchema: {
    type: 'object',
    properties: {
      name: { type: 'string', description: 'Name of the tool, as find_tool gives it.' },
      arguments: { type: 'object', description: 'Arguments of the tool, by its own inputSchema.' },
    },
    required: ['name'],
  },
  annotations: { title: 'Call a tool' },
}
