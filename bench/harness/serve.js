/** The other side of program.ts. Plain JavaScript, because the rivals' programs use it too. */
exports.serve = function serve(functions) {
  process.on('message', async ({ id, name, args }) => {
    try {
      process.send?.({ id, result: await functions[name](args) });
    } catch (error) {
      process.send?.({ id, error: error?.stack ?? String(error) });
    }
  });
  process.on('disconnect', () => process.exit(0));
};
