/** So many tools of a backend. */
export const makeTools = (length: number) =>
  Array.from({ length }, (_, index) => ({
    name: `tool_${index}`,
    description: `Tool number ${index}, which says its argument again and does nothing else.`,
    inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  }))

/** The tools of each backend in the benches. */
export const TOOLS = makeTools(20)
