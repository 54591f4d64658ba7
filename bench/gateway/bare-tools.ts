/** The tools of each backend in the benches. */
export const TOOLS = Array.from({ length: 20 }, (_, index) => ({
  name: `tool_${index}`,
  description: `Tool number ${index}, which says its argument again and does nothing else.`,
  inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
}))
