# Started by test_voters_by_the_book.py inside a network namespace of its own: three nodes as README.md starts them, whose
# voters are replaced, removed and added as docs/operations says. Commands of the documents come in the variables
# START, REPLACE and LEAVE.
set -eu
ip link set lo up
cp -r "$ROOT/config" .

# Wait until the quorum's description has a row for each pattern.
await_rows() {
  for attempt in $(seq 60); do
    rows=$(kraft quorum describe 2>/dev/null | tr '\t' ' ' || true)
    missing=0
    for pattern in "$@"; do echo "$rows" | grep -Eq "$pattern" || missing=1; done
    if [ $missing = 0 ]; then return 0; fi
    sleep 0.1
  done
  echo "$rows"
  return 1
}

eval "$START"
await_rows '^1 +(voter|leader)' '^2 +(voter|leader)' '^3 +(voter|leader)'
kraft topics create t --partitions 1 --replication-factor 3
echo before | kraft produce t

# A lost disk. Bash names the jobs of START in order.
kill -9 %2
wait %2 || true
rm -rf kraft-data-2
old=$(kraft quorum describe | tr '\t' ' ' | awk '$1 == 2 {print $NF}')
eval "$REPLACE_BEFORE"
await_rows '^2 +observer +[0-9]+ +0 '
eval "$REPLACE_ADD"
await_rows '^1 +(voter|leader)' '^2 +(voter|leader)' '^3 +(voter|leader)'
kraft quorum describe | tr '\t' ' ' | grep -E '^2 +(voter|leader)' | grep -vq -- "$old"

# A voter that leaves.
eval "$LEAVE"
await_rows '^1 +(voter|leader)' '^2 +(voter|leader)' '^3 +observer'
kraft quorum add-voter 3 --endpoint 127.0.0.1:29093
await_rows '^3 +(voter|leader)'
echo after | kraft produce t
test "$(kraft consume t --from-beginning -e | tr '\n' ' ')" = "before after "
kill $(jobs -p)
wait
