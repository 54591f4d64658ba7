import { choice, type Reader, Type } from './schema.ts'

/** Which era of MCP a server speaks: sessions (until 2025-11-25), or none (from 2026-07-28 on). */
export const protocolEra = (reader: Reader) =>
  Type.Optional(
    choice(
      reader,
      'The era of MCP that the server speaks: with sessions, or stateless. With auto, and when left out, it is found out.',
      ['auto', 'session', 'stateless'],
    ),
  )
