/**
 * The program that the conformance suite starts for a client: hands the suite's server over to the test that has started
 * the suite, and waits for its end there. Usage: conformance-command.ts <url of the test> <url of the suite's server>
 */
const [test = '', url] = process.argv.slice(2)
const context: unknown = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}')
const scenario = process.env['MCP_CONFORMANCE_SCENARIO']
const { ok } = await fetch(test, { method: 'POST', body: JSON.stringify({ url, context, scenario }) })
process.exitCode = ok ? 0 : 1
