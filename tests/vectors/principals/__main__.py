from tests.vectors.principals import RECORDED, record

record()
print(f"vectors: {RECORDED.name} written")
