export const makeTools = (length: number) =>
  Array.from({ length }, (_, index) => ({
    name: `tool_${index}`,
    description: `Tool number ${index}, which says its argument again and does nothing else.`,
    inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  }))

export const TOOLS = makeTools(20)
