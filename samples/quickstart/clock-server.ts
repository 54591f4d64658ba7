/**
 * An MCP server with three tools about time zones, on the MCP SDK 2, for both eras. `portico run` sets HOST and PORT.
 */
import { createServer } from 'node:http'
import { localhostHostValidation, toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'

const MINUTE = 60_000

const isZone = (zone: string) => {
  try {
    return Boolean(new Intl.DateTimeFormat('en', { timeZone: zone }))
  } catch {
    return false
  }
}

const zone = z.string().refine(isZone, 'not an IANA time zone').describe('IANA time zone, such as Europe/Lisbon')
const clockTime = z.string().regex(/^([01]\d|2[0-3]):[0-5]\d$/)
const localTime = z.string().regex(/^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d$/)

/** The wall clock in a zone as `2026-11-20T15:04`. */
function wallClock(instant: number, timeZone: string): string {
  const shown = new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short', timeStyle: 'short' }).format(instant)
  return shown.replace(' ', 'T')
}

/** Minutes by which the zone's clock is ahead of UTC at an instant. */
const offset = (instant: number, timeZone: string) =>
  Math.round((Date.parse(`${wallClock(instant, timeZone)}Z`) - instant) / MINUTE)

/** The instant at which a zone's clock shows a time. Where the clock skips it, that of the same length before. */
function findInstant(local: string, timeZone: string): number {
  const asUtc = Date.parse(`${local}Z`)
  const guess = asUtc - offset(asUtc, timeZone) * MINUTE
  return asUtc - offset(guess, timeZone) * MINUTE
}

const rowSchema = z.object({ zone: z.string(), time: z.string(), utcOffsetMinutes: z.number() })

const row = (instant: number, timeZone: string) => ({
  zone: timeZone,
  time: wallClock(instant, timeZone),
  utcOffsetMinutes: offset(instant, timeZone),
})

/** A result for people and, with the same content, for programs. */
const answer = <T extends Record<string, unknown>>(structuredContent: T, lines: readonly string[]) => ({
  content: [{ type: 'text' as const, text: lines.join('\n') }],
  structuredContent,
})

const line = ({ zone, time }: z.infer<typeof rowSchema>) => `${time.replace('T', ' ')}  ${zone}`

function clockServer(): McpServer {
  const server = new McpServer({ name: 'clock', version: '1.0.0' })
  const readOnly = { readOnlyHint: true, openWorldHint: false }

  server.registerTool(
    'current_time',
    {
      title: 'Current time',
      description: 'What time it is now in one or more time zones.',
      inputSchema: z.object({ zones: z.array(zone).min(1).max(20) }),
      outputSchema: z.object({ times: z.array(rowSchema) }),
      annotations: readOnly,
    },
    async ({ zones }) => {
      const times = zones.map((timeZone) => row(Date.now(), timeZone))
      return answer({ times }, times.map(line))
    },
  )

  server.registerTool(
    'convert_time',
    {
      title: 'Convert a time',
      description: 'What a local date and time in one time zone is in others, with daylight saving taken into account.',
      inputSchema: z.object({
        time: localTime.describe('Local date and time, such as 2026-11-20T15:00'),
        from: zone,
        to: z.array(zone).min(1).max(20),
      }),
      outputSchema: z.object({ times: z.array(rowSchema) }),
      annotations: { ...readOnly, idempotentHint: true },
    },
    async ({ time, from, to }) => {
      const instant = findInstant(time, from)
      const times = to.map((timeZone) => row(instant, timeZone))
      return answer({ times }, times.map(line))
    },
  )

  server.registerTool(
    'common_hours',
    {
      title: 'Common working hours',
      description: 'When on a day the working hours of several time zones overlap, for finding a meeting time.',
      inputSchema: z.object({
        date: z
          .string()
          .regex(/^\d{4}-\d\d-\d\d$/)
          .describe('The day, as it is called in the first zone'),
        zones: z.array(zone).min(2).max(20),
        start: clockTime.default('09:00').describe('When work begins everywhere'),
        end: clockTime.default('17:00').describe('When it ends'),
      }),
      outputSchema: z.object({ minutes: z.number(), start: z.array(rowSchema), end: z.array(rowSchema) }),
      annotations: { ...readOnly, idempotentHint: true },
    },
    async ({ date, zones, start, end }) => {
      const from = Math.max(...zones.map((timeZone) => findInstant(`${date}T${start}`, timeZone)))
      const until = Math.min(...zones.map((timeZone) => findInstant(`${date}T${end}`, timeZone)))
      if (from >= until) return answer({ minutes: 0, start: [], end: [] }, ['There are no common hours on that day.'])
      const hours = zones.map((timeZone) => ({ start: row(from, timeZone), end: row(until, timeZone) }))
      return answer(
        {
          minutes: (until - from) / MINUTE,
          start: hours.map(({ start }) => start),
          end: hours.map(({ end }) => end),
        },
        hours.map(({ start, end }) => `${start.time.slice(11)}–${end.time.slice(11)}  ${start.zone}`),
      )
    },
  )
  return server
}

const handler = toNodeHandler(createMcpHandler(clockServer))
const isLocalHost = localhostHostValidation()

const server = createServer((request, response) => {
  if (!isLocalHost(request, response)) return
  if (request.url?.split('?')[0] === '/mcp') handler(request, response).catch(() => response.destroy())
  else response.writeHead(404).end()
})

server.listen(Number(process.env.PORT ?? 8080), process.env.HOST ?? '127.0.0.1', () => {
  console.error('the clock server listens')
})
