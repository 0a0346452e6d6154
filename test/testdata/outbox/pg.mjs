// Calls a function of the page's program: node pg.mjs FUNCTION ORDER
import { createRequire } from "node:module";
import * as orders from "./orders.mjs";

const { Client } = createRequire(import.meta.url)("pg"); // unlike import, it follows NODE_PATH
const client = new Client({
  host: process.env.DB_HOST, port: process.env.DB_PORT, database: process.env.DB_NAME, user: process.env.DB_USER,
  password: process.env.DB_PASSWORD,
});
await client.connect();
await orders[process.argv[2]](client, Number(process.argv[3]));
await client.end();
