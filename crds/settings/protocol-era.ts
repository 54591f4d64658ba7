import { choice, type Reader, Type } from './schema.ts'

/** The era of MCP that a server speaks: with sessions (until 2025-11-25) or without (from 2026-07-28 on). */
export const protocolEra = (reader: Reader) =>
  Type.Optional(
    choice(
      reader,
      'The era of MCP that the server speaks: with sessions, or stateless. With auto, and when left out, it is detected.',
      ['auto', 'session', 'stateless'],
    ),
  )
