/**
 * The program that the conformance suite starts as a client. It passes the URL of the suite's server to the test that
 * started the suite, and waits until the test is done. Usage: conformance-command.ts <URL of the test> <URL of the
 * suite's server>
 */
const [test = '', url] = process.argv.slice(2)
const context: unknown = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}')
const scenario = process.env['MCP_CONFORMANCE_SCENARIO']
const { ok } = await fetch(test, { method: 'POST', body: JSON.stringify({ url, context, scenario }) })
process.exitCode = ok ? 0 : 1
