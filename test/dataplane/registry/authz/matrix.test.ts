import { authorizationMatrix } from './matrix.ts'

authorizationMatrix('on SQLite', async () => ({}))
